package run

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/jepsen/disk"
	"github.com/cantus-bus/cantus/jepsen/nemesis"
	"github.com/cantus-bus/cantus/jepsen/network"
	"github.com/cantus-bus/cantus/jepsen/workload"
)

// Options of a run.
type Options struct {
	Workload string        `json:"workload"`
	Nemesis  string        `json:"nemesis"` // names and groups, separated by commas
	Time     time.Duration `json:"time_ns"` // of faults
	Seed     uint64        `json:"seed"`
	Nodes    int           `json:"nodes"`
	Rate     int           `json:"rate"`     // messages a second
	Beside   int           `json:"beside"`   // faults in force at once
	Each     int           `json:"each"`     // each fault so many times, in turn, within the time; 0: by chance, for all the time
	Hold     time.Duration `json:"hold_ns"`  // how long faults last, on average; 0: holdFault
	Stuck    time.Duration `json:"stuck_ns"` // how long a reader may stand still; 0: the check's default
	Patience time.Duration `json:"-"`        // how long what was broken has to recover; 0: recoverLimit
	Binary   string        `json:"binary"`   // "": built from the module in the working folder
	From     string        `json:"from"`     // an earlier build, for workloads that upgrade
	Tags     string        `json:"tags"`     // of the build, beside "faults"
	Hooks    bool          `json:"hooks"`    // the binary has the tag faults
	Network  string        `json:"network"`  // "", "netns", "proxy"
	Disks    string        `json:"disks"`    // "", "image", "folder"
	Dir      string        `json:"dir"`      // the run's folder; "": a new one in the temporary folder
	Keep     bool          `json:"keep"`     // the folder stays even if nothing was found
	// Log gets a line now and then. nil: nothing is said.
	Log func(format string, args ...any) `json:"-"`
}

// ErrNoEarlier: a run needs an earlier build of the broker, and was given none.
var ErrNoEarlier = errors.New("no earlier build")

// ElectionTimeout is what the nodes of a run are configured to.
const ElectionTimeout = 500 * time.Millisecond

// Times around the faults.
const (
	startLimit   = 60 * time.Second
	recoverLimit = 90 * time.Second
	calm         = 3 * time.Second  // of work after the healing; after short faults no longer than these
	drainLimit   = 60 * time.Second // for readers to read the rest
	finalLimit   = 60 * time.Second // for reading everything from first
	verifyFor    = 45 * time.Second // until the replicas must be equal
	limpLimit    = 5 * time.Second  // for each of these, in a cluster that did not recover
	holdFault    = 2000 * time.Millisecond
	restFault    = 1000 * time.Millisecond
)

// plan is options made definite.
type plan struct {
	Options
	load   workload.Workload
	mix    []nemesis.Fault
	images bool
}

func (o Options) plan() (p plan, err error) {
	if o.Nodes < 1 {
		return p, fmt.Errorf("nodes %d: at least one", o.Nodes)
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Hold == 0 {
		o.Hold = holdFault
	}
	if o.Patience == 0 {
		o.Patience = recoverLimit
	}
	p.Options = o
	if p.load, err = workload.Find(o.Workload); err != nil {
		return p, err
	}
	if p.load.Before && o.From == "" {
		return p, fmt.Errorf("%w: workload %s begins with one: say which by --from-binary", ErrNoEarlier, o.Workload)
	}
	switch o.Disks {
	case "":
		p.images = disk.CanImage()
	case "image":
		p.images = true
	case "folder":
	default:
		return p, fmt.Errorf("disks %q: image or folder", o.Disks)
	}
	if p.Network == "" {
		p.Network = network.ProxyName
		if network.CanNamespace() {
			p.Network = network.NamespaceName
		}
	}
	p.mix, err = nemesis.Parse(o.Nemesis, p.can)
	return p, err
}

// can tells what the run can do.
func (p *plan) can(n nemesis.Need) bool {
	switch n {
	case nemesis.NeedShaping:
		return p.Network == network.ProxyName
	case nemesis.NeedImages:
		return p.images
	case nemesis.NeedHooks:
		return p.Hooks
	}
	return true
}

// Build builds the command of the module in the working folder into dir, with the tag faults and those given.
func Build(dir, tags string) (binary string, err error) {
	binary = filepath.Join(dir, "cantus")
	all := strings.Trim("faults,"+tags, ",")
	cmd := exec.Command("go", "build", "-tags", all, "-o", binary, "github.com/cantus-bus/cantus/cmd/cantus")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build the broker with tags %s: %w", all, err)
	}
	return binary, nil
}
