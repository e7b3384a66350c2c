package subtree

import (
	"fmt"
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
)

// maxCandidates is up to how many topics a filter's are looked up one by one in a directory; beyond, the directory is
// walked and each of its topics shown to the matcher.
const maxCandidates = 1024

// enter makes a merge read a file at scanned+1.
func (c *Cursor) enter(g *merge, f *file) error {
	g.reset()
	if int(f.meta.MaxTopic) >= c.s.table.Nodes() {
		return fmt.Errorf("subtree: read %s: topic %d: %w", f.name, f.meta.MaxTopic, ErrTableBehind)
	}
	next := c.scanned + 1
	all := c.m.Everything()
	if !all {
		c.findCandidates()
	}
	for i := range f.foot.partitions {
		p := &f.foot.partitions[i]
		part := c.s.table.Partition(p.node)
		if part == topic.NoPartition || c.s.table.PartitionNode(part) != p.node {
			return f.corrupt("read", 0, fmt.Sprintf("topic %d is not a partition of this stream", p.node), nil)
		}
		coverage := c.m.Coverage(part)
		if coverage == topic.CoverNone {
			continue
		}
		if err := c.addPartition(g, f, p, coverage, next); err != nil {
			return err
		}
	}
	g.begin(f, c.m, next)
	return nil
}

// addPartition adds the sections of a partition that may hold matches.
func (c *Cursor) addPartition(g *merge, f *file, p *partition, coverage topic.Coverage, next uint64) error {
	if coverage == topic.CoverAll {
		for i := range p.sections {
			if sec := &p.sections[i]; sec.last >= next {
				g.sources = append(g.sources, source{sec: sec})
			}
		}
		return nil
	}
	wants := make([]blockSet, len(p.sections))
	err := c.eachMatch(g, f, p, func(e entry) {
		sec := &p.sections[e.section]
		if e.last < next {
			return
		}
		if wants[e.section] == nil {
			wants[e.section] = newBlockSet(sec.blocks)
		}
		e.eachRun(wants[e.section].add)
	})
	if err != nil {
		return err
	}
	for i := range p.sections {
		if wants[i] != nil {
			g.sources = append(g.sources, source{sec: &p.sections[i], want: wants[i], filter: true})
		}
	}
	return nil
}

// eachMatch calls fn with the directory entries that match.
func (c *Cursor) eachMatch(g *merge, f *file, p *partition, fn func(entry)) error {
	if !c.many {
		return g.eachOf(f, p, c.candidatesIn(p), fn)
	}
	return g.eachTopic(f, p, func(e entry) bool {
		if c.m.Match(e.topic) {
			fn(e)
		}
		return true
	})
}

// candidatesIn are the candidates of one partition.
func (c *Cursor) candidatesIn(p *partition) []topic.ID {
	part := c.s.table.Partition(p.node)
	return slices.DeleteFunc(slices.Clone(c.candidates), func(id topic.ID) bool { return c.s.table.Partition(id) != part })
}

// findCandidates lists the topics that match, if they are few. The table only grows, so the list holds for all files whose
// topics the table knew when it was made.
func (c *Cursor) findCandidates() {
	nodes := c.s.table.Nodes()
	if nodes == c.known {
		return
	}
	c.known, c.many, c.candidates = nodes, false, c.candidates[:0]
	for _, filter := range c.m.Filters() {
		id, ok := c.s.table.Lookup(filter.Path())
		if !ok {
			continue
		}
		if !filter.Subtree() {
			c.candidates = append(c.candidates, id)
		} else if !c.addBelow(id) {
			c.many, c.candidates = true, nil
			return
		}
	}
	slices.Sort(c.candidates)
}

// addBelow adds a node and all below it; false if they are too many.
func (c *Cursor) addBelow(id topic.ID) bool {
	c.candidates = append(c.candidates, id)
	for i := len(c.candidates) - 1; i < len(c.candidates); i++ {
		for child := range c.s.table.Children(c.candidates[i]) {
			if len(c.candidates) >= maxCandidates {
				return false
			}
			c.candidates = append(c.candidates, child)
		}
	}
	return true
}
