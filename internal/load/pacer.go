package load

import (
	"context"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
)

// Pacer spaces calls evenly. The zero rate does not wait.
type Pacer struct {
	interval time.Duration
	next     time.Time
}

// NewPacer begins now, with so many calls a second.
func NewPacer(perSecond float64) *Pacer {
	if perSecond <= 0 {
		return &Pacer{}
	}
	return &Pacer{interval: time.Duration(float64(time.Second) / perSecond), next: time.Now()}
}

// minSleep: below it the scheduler's own lateness would be larger than the wait, so calls come in small bursts.
const minSleep = time.Millisecond

// Wait returns when the next call is due; late callers catch up.
func (p *Pacer) Wait(ctx context.Context) error {
	if p.interval == 0 {
		return nil
	}
	if ahead := time.Until(p.next); ahead > minSleep && !pause.For(ctx, ahead) {
		return ctx.Err()
	}
	p.next = p.next.Add(p.interval)
	return nil
}
