package transport

import "time"

// clock is a pump's one timer: heartbeats, and progress of subscriptions that nothing wakes.
type clock struct {
	timer *time.Timer
	due   bool // the timer has fired and was not looked at

	nextBeat     time.Time
	received     uint64 // conn.received at the last beat
	missed       int    // beats in a row without a byte from the client
	nextProgress time.Time
	progress     bool   // there was a subscription: before that the timer serves heartbeats alone
	fence        uint64 // at the last progress tick
	owed         bool   // a subscription's position has moved beyond its mark: the next tick must look
}

func (k *clock) start(p *pump) {
	k.nextBeat = p.now.Add(p.c.heartbeat)
	k.received = p.c.received.Load()
	k.timer = time.NewTimer(p.c.heartbeat)
}

func (k *clock) stop() { k.timer.Stop() }

// subscribed starts the progress ticks with the first subscription.
func (k *clock) subscribed(p *pump) {
	if !k.progress {
		k.progress = true
		k.nextProgress = p.now.Add(p.c.opts.Progress)
		k.schedule(p.now)
	}
}

func (k *clock) schedule(now time.Time) {
	next := k.nextBeat
	if k.progress && k.nextProgress.Before(next) {
		next = k.nextProgress
	}
	k.timer.Reset(next.Sub(now))
}

// check does what is due; false: the client is dead.
func (k *clock) check(p *pump) bool {
	if !k.due {
		select {
		case <-k.timer.C:
		default:
			return true
		}
	}
	k.due = false
	if !p.now.Before(k.nextBeat) {
		k.nextBeat = p.now.Add(p.c.heartbeat)
		if !p.beat() {
			return false
		}
	}
	if k.progress && !p.now.Before(k.nextProgress) {
		k.nextProgress = p.now.Add(p.c.opts.Progress)
		p.tick()
	}
	k.schedule(p.now)
	return true
}
