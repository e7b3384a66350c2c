package profile

import (
	"context"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/tipstore"
	"github.com/cantus-bus/cantus/tipstore/heapbench"
)

// Methods of reading.
const (
	Index  = "index"  // merge of posting lists, whatever it costs
	Linear = "linear" // past all records, in a store without an index
	Chosen = "chosen" // as the cursor of a store with an index decides
	Merge  = "merge"  // no store: only the merge of the lists' places
)

// pass is what one reader does once: it returns how many messages it got.
type pass func(ctx context.Context) (messages int, err error)

// newReader makes a reader: what it keeps from pass to pass is allocated once. Its passes are one goroutine's at a time.
type newReader func() (pass, error)

// tipReader reads the selection from the store, from the first missed message to the fence, as a session does for a client
// that comes back: with a new cursor and a new matcher, into the view it has.
func (t *tips) tipReader(store *tipstore.Store, sel selection) newReader {
	from := t.from()
	return func() (pass, error) {
		view := new(tipstore.View)
		return func(ctx context.Context) (n int, err error) {
			cursor := store.NewCursor(topic.NewMatcher(t.table, sel.filters), from)
			defer cursor.Close()
			defer view.Release()
			_, last := store.Bounds()
			for scanned := uint64(0); scanned < last; scanned = view.Scanned {
				if ctx.Err() != nil {
					return n, ctx.Err()
				}
				if err := cursor.Read(view, tipstore.Limit{}); err != nil {
					return n, err
				}
				n += view.Count
			}
			return n, nil
		}, nil
	}
}

// mergeBatch is how many places a merge finds at a time: as the tip's.
const mergeBatch = 256

// listReader merges the selection's lists, without a tip.
func listReader(heap string, sel selection) newReader {
	return func() (pass, error) {
		m, err := heapbench.New(heap)
		if err != nil {
			return nil, err
		}
		batch := make([]uint64, mergeBatch)
		return func(ctx context.Context) (n int, err error) {
			m.Reset(sel.lists)
			for got := len(batch); got == len(batch); n += got {
				got = m.Fill(batch)
			}
			return n, ctx.Err()
		}, nil
	}
}
