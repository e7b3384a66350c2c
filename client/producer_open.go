package client

import (
	"context"
	"errors"

	"github.com/cantus-bus/cantus/internal/wire"
)

// opening is why a producer must be opened before anything is sent.
type opening int

const (
	noOpening   opening = iota
	newNumbers          // the epoch is used up: go on after the last number that the cluster has
	sameNumbers         // the epoch was fenced by an opening of our own: send the queue again under the new one
)

func (p *Producer) openingLocked() opening {
	switch {
	case p.mu.reopen:
		return newNumbers
	case p.mu.refence:
		return sameNumbers
	}
	return noOpening
}

// open asks for the id's next epoch. An attempt without an answer counts as late: a node may go on trying behind our back.
func (p *Producer) open(ctx context.Context, cn *conn) (wire.ProducerOpened, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	opened, err := cn.openProducer(ctx, p.o.ID)
	var e *Error
	if err != nil && (!errors.As(err, &e) || e.Code == CodeUnknown) {
		p.mu.Lock()
		p.mu.late++
		p.mu.Unlock()
	}
	return opened, err
}

// openedLocked takes the new epoch. False: the producer has failed.
func (p *Producer) openedLocked(need opening, o *wire.ProducerOpened) bool {
	if need == noOpening {
		return true
	}
	if between := uint64(o.Epoch) - uint64(p.mu.epoch) - 1; o.Epoch > p.mu.epoch {
		p.mu.late -= min(p.mu.late, between) // those have come
	}
	if need == sameNumbers && o.LastNumber >= p.mu.next {
		p.failLocked(&Error{Op: "publish", Code: CodeFenced, Detail: uint64(o.Epoch), Message: "numbers were used that are not ours"})
		return false
	}
	p.mu.epoch, p.mu.reopen, p.mu.refence = o.Epoch, false, false
	if need == newNumbers {
		p.mu.next = o.LastNumber + 1
	}
	for _, b := range p.mu.queue {
		b.bytes.SetEpoch(o.Epoch)
	}
	p.roomChangedLocked()
	return true
}

// fencedByItselfLocked says whether openings of our own that came late explain that the session is fenced. Only a random id
// can be sure of that: it is nobody else's. Its numbers go on over epochs, and nothing that was sent under the old epoch can be
// executed any more: sent again under a new one and the same numbers, each batch is published once.
func (p *Producer) fencedByItselfLocked(a *wire.Ack) bool {
	return p.own && Code(a.Code) == CodeFenced && a.Detail <= uint64(p.mu.epoch)+p.mu.late
}
