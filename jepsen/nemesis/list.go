package nemesis

import (
	"fmt"
	"slices"
	"strings"
)

// List returns all faults.
func List() []Fault {
	list := []Fault{
		killFault(), pauseFault(), stutterFault(), transferFault(), snapshotFault(),
		cutOneFault(), cutHalvesFault(), cutRingFault(), cutOneWayFault(), bridgeFault(), flapFault(),
		slowFault(), narrowFault(), lossyFault(),
		powerFault(), fullFault(), writeErrorFault(), syncErrorFault(), slowSyncFault(), hangSyncFault(), clockFault(),
		pausePowerFault(), bitFlipFault(), flipLiveFault(), flipRaftFault(), tornFault(), snapshotDamageFault(), replaceFault(), lostVoteFault(),
	}
	return append(list, stepFaults()...)
}

// groups are names for several faults.
var groups = map[string][]string{
	"none":    nil,
	"process": {"kill", "pause", "stutter", "transfer"},
	"cut":     {"cut-one", "cut-halves", "cut-ring", "cut-one-way", "cut-bridge", "flap"},
	"links":   {"slow", "narrow", "lossy"},
	"disk":    {"power", "full", "write-error", "sync-error", "slow-sync", "hang-sync", "pause-power"},
	"damage":  {"bit-flip", "flip-live", "flip-raft", "torn", "snapshot-damage", "replace", "lost-vote"},
	"steps":   stepNames(),
	// quick are the faults that are over soon after they end.
	"quick": {"kill", "pause", "stutter", "transfer", "cut-one", "cut-halves", "cut-ring", "cut-one-way", "flap", "power", "full", "slow-sync", "clock"},
}

// Groups lists the names of groups and what they stand for.
func Groups() map[string][]string {
	shown := map[string][]string{"mix": {"everything that the run can do"}}
	for name, list := range groups {
		shown[name] = list
	}
	return shown
}

// Parse reads "kill,power:all,cut,mix": names of faults and groups. Of a group, what can tells is impossible is left out; mix is the
// group of all. Behind a colon stands whom a fault hits; else that is chance.
func Parse(text string, can func(Need) bool) (mix []Fault, err error) {
	list := List()
	for name := range strings.SplitSeq(text, ",") {
		name, whom, aimed := strings.Cut(name, ":")
		group, isGroup := groups[name]
		if (isGroup || name == "mix") && aimed {
			return nil, fmt.Errorf("nemesis %q is a group: name the faults to say whom each hits", name)
		}
		if isGroup || name == "mix" {
			for _, f := range list {
				if can(f.Need) && (name == "mix" || slices.Contains(group, f.Name)) {
					mix = append(mix, f)
				}
			}
			continue
		}
		i := slices.IndexFunc(list, func(f Fault) bool { return f.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("nemesis %q is unknown: see jepsen list", name)
		}
		if !can(list[i].Need) {
			return nil, fmt.Errorf("nemesis %q needs %v", name, list[i].Need)
		}
		f := list[i]
		if aimed {
			if !slices.Contains(f.aims, aim(whom)) {
				return nil, fmt.Errorf("nemesis %q does not hit %q: it hits %v", name, whom, f.aims)
			}
			f.aims = []aim{aim(whom)}
		}
		mix = append(mix, f)
	}
	return mix, nil
}

// Names lists names.
func Names(mix []Fault) []string {
	names := make([]string, len(mix))
	for i, f := range mix {
		names[i] = f.Name
	}
	return names
}
