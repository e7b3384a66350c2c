package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cantus-bus/cantus/jepsen/run"
)

// withBroker calls do with all that a command which runs the broker needs beside its flags: a seed if none was given, somewhere to tell what
// happens, and the broker, which is built if o names none and removed when do has ended.
func withBroker(cmd *cobra.Command, notes io.Writer, o *run.Options, do func(ctx context.Context) error) error {
	if !cmd.Flags().Changed("seed") {
		o.Seed = rand.Uint64N(1 << 32)
	}
	o.Log = func(format string, args ...any) { fmt.Fprintf(notes, format+"\n", args...) }
	cleanup, err := build(o)
	if err != nil {
		return err
	}
	defer cleanup()
	return do(cmd.Context())
}

// build builds the broker if o names none. cleanup removes it.
func build(o *run.Options) (cleanup func(), err error) {
	if o.Binary != "" {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp("", "jepsen-build-")
	if err != nil {
		return nil, err
	}
	cleanup = func() { _ = os.RemoveAll(dir) } // a temporary folder
	if o.Binary, err = run.Build(dir, o.Tags); err != nil {
		cleanup()
		return nil, err
	}
	o.Hooks = true
	return cleanup, nil
}

// addBroker adds the flags of every command that runs the broker: with what chances and load, what, and where.
func addBroker(f *pflag.FlagSet, o *run.Options, rate int) {
	f.Uint64Var(&o.Seed, "seed", 0, "of all choices, of the first run if there are several; default: chance")
	f.IntVar(&o.Rate, "rate", rate, "messages a second that publishers aim at")
	f.StringVar(&o.Binary, "binary", "", "the broker; default: built from this module with the tag faults")
	f.StringVar(&o.From, "from-binary", "", "an earlier build of the broker, with the tag faults if the binary has it, to upgrade from; default: workloads that upgrade are skipped")
	f.BoolVar(&o.Hooks, "hooks", false, "the binary given was built with the tag faults")
	f.StringVar(&o.Tags, "tags", "", "more build tags, such as those of planted bugs")
	f.StringVar(&o.Network, "network", "", "netns or proxy; default: netns where it is possible")
	f.StringVar(&o.Disks, "disks", "", "image or folder; default: image where it is possible")
	f.StringVar(&o.Dir, "dir", "", "folder for the run; default: a temporary one, which stays if something is broken")
	f.BoolVar(&o.Keep, "keep", false, "keep the folder in any case")
}
