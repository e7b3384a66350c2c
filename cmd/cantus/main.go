// Command cantus is the broker and all its tools in one binary: a node, a client, a load generator, a demonstration.
//
// It promises stable names, flags and JSON fields, and exit codes that mean something: 0 fine, 1 failed, 2 used wrongly.
// It has no logic of its own: each file here is one subcommand that reads flags, calls a package, and prints.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr, os.Environ()})
	stop()
	os.Exit(code)
}
