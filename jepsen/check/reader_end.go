package check

// finish judges the readers at the history's end: what each should have been given up to its position.
func (rs *readers) finish() {
	dense := bits{}
	for _, r := range rs.list {
		rs.missing(r)
		if r.filters.Everything() {
			rs.dense(r, &dense)
		}
		if rs.l.complete && !r.ended {
			rs.out.looked(Stuck, 1)
			rs.silence(r, 0, rs.l.run.end)
		}
	}
	rs.lost()
}

// missing looks for matches that others saw and the reader did not.
func (rs *readers) missing(r *reader) {
	rs.l.places.each(r.opened.Base+1, r.position(), func(seq uint64, p *place) bool {
		if !p.seen() || !r.match(rs.l, p.topic) {
			return true
		}
		rs.out.looked(Missing, 1)
		if !r.got.has(seq) {
			rs.out.found(Missing, []int{r.line, p.line, p.ackLine, r.lastLine, r.markLine, r.headLine}, "reader %d came to seq %d and was never given %d of %q (message %d)",
				r.opened.Reader, r.position(), seq, rs.l.topics[p.topic], p.id)
		}
		return true
	})
}

// dense looks for seqs that a reader of everything passed and that nobody ever saw or acked. Told remembers what was
// reported.
func (rs *readers) dense(r *reader, told *bits) {
	next := r.opened.Base + 1
	hole := func(to uint64) { // next..to are unknown to everybody
		rs.out.looked(Dense, 1)
		if next > to || told.has(next) {
			return
		}
		told.add(next)
		rs.out.found(Dense, []int{r.line, r.lastLine, r.markLine, r.headLine}, "reader %d of everything came to seq %d, but nobody ever saw the seqs %d to %d",
			r.opened.Reader, r.position(), next, to)
	}
	rs.l.places.each(next, r.position(), func(seq uint64, p *place) bool {
		if p.claimed() {
			hole(seq - 1)
			next = seq + 1
		}
		return true
	})
	hole(r.position())
}

// lost looks for acked messages that nobody was given although somebody should have been.
func (rs *readers) lost() {
	open := 0
	rs.l.messages.each(0, ^uint64(0), func(id uint64, m *message) bool {
		if m.line == 0 || m.outcome != acked {
			return true
		}
		rs.out.looked(Lost, 1)
		switch {
		case m.seq == 0:
			if !rs.passed(id, m) {
				open++
			}
		case m.acked != 0 && m.seq != m.acked && rs.l.places.at(m.acked).id != id:
			rs.out.found(Disagree, []int{m.line, rs.l.places.at(m.seq).line}, "message %d was acked at seq %d and stands at %d", id, m.acked, m.seq)
		}
		return true
	})
	if open > 0 {
		rs.out.note("%d acked messages were never seen, and no reader came past them: nothing shows that they are there", open)
	}
}

// passed says whether a matching reader came past an acked message that nobody saw, and reports it as lost.
func (rs *readers) passed(id uint64, m *message) bool {
	for _, r := range rs.list {
		if !r.match(rs.l, m.topic) {
			continue
		}
		inside := r.opened.Base < m.acked && m.acked <= r.position()
		if m.acked == 0 { // its place is unknown: only who read everything passed it
			inside = rs.l.complete && r.fromFirstTo(rs.l.maxSeq)
		}
		if !inside {
			continue
		}
		lines := []int{m.line, r.line, r.lastLine, r.markLine, r.headLine, rs.l.places.at(m.acked).line}
		rs.out.found(Lost, lines, "message %d of %q was acked at seq %d; reader %d came to %d, and nobody was ever given it",
			id, rs.l.topics[m.topic], m.acked, r.opened.Reader, r.position())
		return true
	}
	return false
}

// fromFirstTo says that the reader read everything of its filters up to a seq.
func (r *reader) fromFirstTo(seq uint64) bool { return r.opened.Base == 0 && r.position() >= seq }

// readAll says that somebody read a topic from its first message to the end of the run.
func (rs *readers) readAll(t uint32) bool {
	for _, r := range rs.list {
		if rs.l.complete && r.fromFirstTo(rs.l.maxSeq) && r.match(rs.l, t) {
			return true
		}
	}
	return false
}
