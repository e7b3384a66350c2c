package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cantus-bus/cantus/internal/units"
	"github.com/cantus-bus/cantus/subtree"
)

// sickFor is how long a node that failed to deliver is asked after all others.
const sickFor = 10 * time.Second

// errNobodyHas: every node that was asked answers that it does not have the file. Another listing may name others.
var errNobodyHas = errors.New("no node has the file any more")

// fetchProgress is how far a fetcher is.
type fetchProgress struct {
	files, filesDone int
	bytes, bytesDone int64
	peer             string // node that is asked
}

// fetcher brings files of other nodes here, one after the other, each from whoever gives it: the leader last for files of history, to
// spare it, and first for its snapshot's state. One goroutine.
type fetcher struct {
	n      *Node
	report func(fetchProgress) // nil: nobody wants to know
	p      fetchProgress
	sick   map[string]time.Time // until when, by id
	turn   int                  // who is asked first changes with each file
	logged time.Time
}

// begin starts to count anew.
func (f *fetcher) begin(files []subtree.Meta, stateSize int64) {
	f.p = fetchProgress{files: len(files), bytes: stateSize}
	for i := range files {
		f.p.bytes += files[i].Size
	}
	f.tell()
}

// history fetches a file of history.
func (f *fetcher) history(ctx context.Context, m *subtree.Meta) error {
	f.turn++
	err := f.from(ctx, f.order(f.turn, false), m.SHA256, m.Size, func() (incomingFile, error) {
		return f.n.stream.history.store.Receive(*m)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name(), err)
	}
	f.p.filesDone++
	f.tell()
	return nil
}

// state fetches the state file of a snapshot.
func (f *fetcher) state(ctx context.Context, w *offeredSnapshot) error {
	if f.n.snaps.hasState(w.m.stateSum) {
		return nil
	}
	if held, err := f.n.snaps.openState(w.m.stateSum); err == nil {
		return held.Close()
	}
	err := f.from(ctx, f.order(0, true), w.m.stateSum, w.m.stateSize, func() (incomingFile, error) {
		return f.n.snaps.receiveState(w.m.stateSum, w.m.stateSize)
	})
	if err != nil {
		return fmt.Errorf("state of snapshot %s: %w", w.m.id(), err)
	}
	f.tell()
	return nil
}

// order is the nodes to ask, one after the other: those that failed lately last of all.
func (f *fetcher) order(turn int, leaderFirst bool) []filePeer {
	list := f.n.filePeers()
	if k := len(list) - 1; leaderFirst && k > 0 {
		list = append([]filePeer{list[k]}, list[:k]...)
	} else if k > 1 {
		turn %= k
		list = slices.Concat(list[turn:k], list[:turn], list[k:])
	}
	now := time.Now()
	slices.SortStableFunc(list, func(a, b filePeer) int {
		return f.sickness(a, now) - f.sickness(b, now)
	})
	return list
}

func (f *fetcher) sickness(p filePeer, now time.Time) int {
	if now.Before(f.sick[p.id]) {
		return 1
	}
	return 0
}

// from tries one node after the other until the file is here. What a node has sent before it failed is kept for the next.
func (f *fetcher) from(ctx context.Context, peers []filePeer, sum [32]byte, size int64, open func() (incomingFile, error)) error {
	if len(peers) == 0 {
		return errors.New("no other node is to be seen")
	}
	base := f.p.bytesDone
	var errs []error
	has := false // somebody may have the file
	for i := 0; i < len(peers) && ctx.Err() == nil; i++ {
		f.p.peer = peers[i].id
		mixed, err := f.once(ctx, peers[i], sum, size, base, open)
		if err != nil && mixed && errors.Is(err, errPeerLies) && ctx.Err() == nil {
			_, err = f.once(ctx, peers[i], sum, size, base, open) // the wrong bytes may be another's
		}
		switch {
		case err == nil:
			f.p.bytesDone = base + size
			return nil
		case errors.Is(err, errLocal):
			return err
		case !errors.Is(err, errPeerHasNot):
			has = true
			f.blame(peers[i], err)
		}
		errs = append(errs, err)
	}
	f.p.bytesDone = base
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !has {
		return fmt.Errorf("%w: %w", errNobodyHas, errors.Join(errs...))
	}
	return errors.Join(errs...)
}

// once tries one node; mixed tells that some of the bytes had come before.
func (f *fetcher) once(ctx context.Context, p filePeer, sum [32]byte, size, base int64, open func() (incomingFile, error)) (mixed bool, err error) {
	in, err := open()
	if err != nil {
		return false, fmt.Errorf("%w: %w", errLocal, err)
	}
	defer in.Close()
	mixed = in.Have() > 0
	f.p.bytesDone = base + in.Have()
	f.tell()
	return mixed, f.n.files.fetch(ctx, p, sum, size, in, func(k int) {
		f.p.bytesDone += int64(k)
		f.n.metrics.fileBytesFetched.Add(float64(k))
		f.tell()
	})
}

func (f *fetcher) blame(p filePeer, err error) {
	if f.sick == nil {
		f.sick = map[string]time.Time{}
	}
	f.sick[p.id] = time.Now().Add(sickFor)
	f.n.log.Warn("a node did not deliver a file: asking the next", "peer", p.id, "error", err)
}

func (f *fetcher) tell() {
	if f.report == nil {
		return
	}
	f.report(f.p)
	if now := time.Now(); now.Sub(f.logged) >= catchUpReport {
		f.logged = now
		f.n.log.Info("fetching", "files", f.p.filesDone, "of_files", f.p.files, "done", units.Size(f.p.bytesDone), "of", units.Size(f.p.bytes), "peer", f.p.peer)
	}
}
