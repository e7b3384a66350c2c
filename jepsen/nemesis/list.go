package nemesis

import (
	"fmt"
	"slices"
	"strings"
)

// List returns all faults.
func List() []Fault {
	return []Fault{
		killFault(), pauseFault(), stutterFault(), transferFault(), snapshotFault(),
		cutOneFault(), cutHalvesFault(), cutRingFault(), cutOneWayFault(), bridgeFault(), flapFault(),
		slowFault(), narrowFault(), lossyFault(),
		powerFault(), fullFault(), writeErrorFault(), syncErrorFault(), slowSyncFault(), hangSyncFault(), clockFault(),
		bitFlipFault(), tornFault(), replaceFault(),
	}
}

// groups are names for several faults.
var groups = map[string][]string{
	"none":    nil,
	"process": {"kill", "pause", "stutter", "transfer"},
	"cut":     {"cut-one", "cut-halves", "cut-ring", "cut-one-way", "cut-bridge", "flap"},
	"links":   {"slow", "narrow", "lossy"},
	"disk":    {"power", "full", "write-error", "sync-error", "slow-sync", "hang-sync"},
	"damage":  {"bit-flip", "torn", "replace"},
}

// Groups lists the names of groups and what they stand for.
func Groups() map[string][]string {
	shown := map[string][]string{"mix": {"everything that the run can do"}}
	for name, list := range groups {
		shown[name] = list
	}
	return shown
}

// Parse reads "kill,cut,mix": names of faults and groups. mix stands for all that can tells is possible.
func Parse(text string, can func(Need) bool) (mix []Fault, err error) {
	list := List()
	add := func(name string) error {
		i := slices.IndexFunc(list, func(f Fault) bool { return f.Name == name })
		if i < 0 {
			return fmt.Errorf("nemesis %q is unknown: see jepsen list", name)
		}
		if !can(list[i].Need) {
			return fmt.Errorf("nemesis %q needs %v", name, list[i].Need)
		}
		mix = append(mix, list[i])
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		group, isGroup := groups[name]
		switch {
		case name == "mix":
			for _, f := range list {
				if can(f.Need) {
					mix = append(mix, f)
				}
			}
		case isGroup:
			for _, member := range group {
				if err := add(member); err != nil {
					return nil, err
				}
			}
		default:
			if err := add(name); err != nil {
				return nil, err
			}
		}
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
