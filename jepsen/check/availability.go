package check

import "time"

// silence is a stretch of a connected majority in which somebody always tried to publish and nobody got an ack.
type silence struct {
	l     *timeline
	out   *findings
	q     span
	from  time.Duration // no ack since; negative: nobody tries
	cover time.Duration // somebody tries until
	line  int           // of the attempt that began it
}

// available looks for stretches in which a majority was connected, somebody tried to publish, and nobody got an ack for
// longer than the bound. Pauses between attempts shorter than a third of it do not end a stretch.
func (l *timeline) available(out *findings) {
	slack := l.bounds.Available / 3
	for _, q := range l.quorum.list {
		out.looked(Availability, 1)
		s := silence{l: l, out: out, q: q, from: -1}
		for _, a := range l.attempts {
			if a.invoke >= q.to {
				break
			}
			if a.ret < q.from {
				continue
			}
			invoke := max(a.invoke, q.from)
			if s.from < 0 || invoke > s.cover+slack {
				s.end()
				s.from, s.cover, s.line = invoke, invoke, a.line
			}
			s.reach(max(s.cover, min(a.ret, q.to)), a.line)
		}
		s.end()
	}
}

// reach moves the end of the stretch, and its beginning behind the acks that came before that.
func (s *silence) reach(cover time.Duration, line int) {
	s.cover = cover
	for {
		ack, ok := s.l.nextAck(s.from)
		if !ok || ack > cover {
			return
		}
		s.judge(ack)
		s.from, s.line = ack+1, line
	}
}

func (s *silence) end() {
	if s.from >= 0 {
		s.judge(s.cover)
	}
	s.from = -1
}

func (s *silence) judge(to time.Duration) {
	if bound := s.l.bounds.Available; to-s.from > bound {
		s.out.found(Availability, []int{s.q.line, s.line}, "a majority was connected from %s to %s, and somebody always tried, but nothing was acked from %s to %s: %s, the bound is %s",
			s.q.from, s.q.to, s.from, to, to-s.from, bound)
	}
}
