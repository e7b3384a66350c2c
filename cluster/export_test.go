package cluster

import "context"

// SetCatchUpStep makes a node call f at each step of a catch-up.
func SetCatchUpStep(o *Options, f func(ctx context.Context, step string)) { o.catchUpStep = f }

// CatchUpSteps are the steps in their order.
func CatchUpSteps() []string {
	return []string{stepListed, stepFile, stepState, stepInstalled, stepPut}
}

// ScrubNow reads and checks all of history.
func (s *Stream) ScrubNow(ctx context.Context) error { return s.history.scrubber.once(ctx) }
