package transport

import (
	"net"
	"sync"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/tipstore"
)

// outgoing gathers what one write sends, in order: replies, then frames of subscriptions. Short pieces are copied into own;
// long stretches of the ring stay where they are and their views stay pinned until the write is done.
type outgoing struct {
	pool   *sync.Pool // of *[]byte, shared by all connections
	own    []byte     // frames, headers and copied stretches; nil while parked
	sealed int        // Invariant: own[:sealed] is in list
	// list is what is to be written. list[0] is kept for the replies.
	list  [][]byte
	bufs  net.Buffers // what of list is not yet written; a field so that a write allocates nothing
	bytes int         // of records and their headers: the measure of a full write

	box     *[]byte // what own came out of the pool in
	pinned  []*tipstore.View
	free    []*tipstore.View  // Invariant: none is pinned
	closing []*cluster.Reader // ended; closed once their views are released
}

// maxPooled is the capacity above which a write buffer that large names have grown is left to the collector.
const maxPooled = 1 << 20

// reset begins the next write.
func (o *outgoing) reset() {
	if o.box == nil {
		o.box = o.pool.Get().(*[]byte)
		o.own = *o.box
	}
	o.own, o.sealed, o.bytes = o.own[:0], 0, 0
	o.list = append(o.list[:0], nil)
}

// park gives the write buffer back until the next reset. Nothing is under way.
func (o *outgoing) park() {
	if o.box == nil {
		return
	}
	*o.box = o.own[:0]
	if cap(o.own) <= maxPooled {
		o.pool.Put(o.box)
	}
	o.box, o.own = nil, nil
}

// view takes an empty view. It comes back by addView or giveBack.
func (o *outgoing) view() *tipstore.View {
	if n := len(o.free); n > 0 {
		v := o.free[n-1]
		o.free = o.free[:n-1]
		return v
	}
	return new(tipstore.View)
}

func (o *outgoing) giveBack(v *tipstore.View) {
	v.Release()
	o.free = append(o.free, v)
}

// addView puts a view's records behind what is there, and releases the view as soon as that can be. It returns how many
// bytes were copied.
func (o *outgoing) addView(v *tipstore.View, copyBelow int) (copied int) {
	for _, part := range v.Parts {
		if len(part) < copyBelow {
			o.own = append(o.own, part...)
			copied += len(part)
			continue
		}
		o.seal()
		o.list = append(o.list, part)
	}
	o.bytes += v.Bytes
	if copied == v.Bytes {
		o.giveBack(v)
	} else {
		o.pinned = append(o.pinned, v)
	}
	return copied
}

// seal moves the finished part of own into list. Appending to own afterwards may move it; what is sealed stays valid.
func (o *outgoing) seal() {
	if len(o.own) > o.sealed {
		o.list = append(o.list, o.own[o.sealed:len(o.own):len(o.own)])
		o.sealed = len(o.own)
	}
}

// close makes an ended reader be closed when nothing of it is pinned any more.
func (o *outgoing) close(r *cluster.Reader) { o.closing = append(o.closing, r) }

// release unpins what the write has sent, or will never send.
func (o *outgoing) release() {
	for i, v := range o.pinned {
		o.giveBack(v)
		o.pinned[i] = nil
	}
	o.pinned = o.pinned[:0]
	for i, r := range o.closing {
		r.Close()
		o.closing[i] = nil
	}
	o.closing = o.closing[:0]
	clear(o.list)
}

// start makes bufs of the whole and says whether there is anything.
func (o *outgoing) start(replies []byte) bool {
	o.seal()
	o.bufs = o.list[1:]
	if len(replies) > 0 {
		o.list[0] = replies
		o.bufs = o.list
	}
	return len(o.bufs) > 0
}
