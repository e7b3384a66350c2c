package http

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/wire"
)

// filesPoll is how often nodes that are behind with writing history are asked again.
const filesPoll = 100 * time.Millisecond

// historyWanted is what every node that keeps history must have on disk, as the log says it.
type historyWanted struct {
	first, last uint64           // seqs of the sealed windows that are kept; last is 0: none is
	generations []fsm.Generation // in force
}

// wantedHistory takes what the log says now.
func wantedHistory(m *fsm.Machine) historyWanted {
	w := historyWanted{generations: m.Generations()}
	if windows := m.Windows(); len(windows) > 0 {
		w.first, w.last = windows[0].FirstSeq, windows[len(windows)-1].LastSeq
	}
	return w
}

// verifyFiles compares the files of history on all nodes. Those that have not written yet what is sealed and planned are waited for, at
// most RequestTimeout. Nodes write the same bytes, at times of their own: one that has not archived a window then differs, one that has not rewritten
// its windows into stores has all messages, and is only told of.
func (s *Server) verifyFiles(ctx context.Context, v *Verification, want historyWanted) {
	var (
		lists         map[string]cluster.FileList
		errs, missing []string
	)
	for end := time.Now().Add(s.opts.RequestTimeout); ; {
		lists, errs = s.collectFiles(ctx, v.Nodes)
		missing, v.Behind = want.missing(lists), want.unwritten(lists)
		if len(missing)+len(v.Behind) == 0 || time.Now().After(end) || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(filesPoll):
		}
	}
	v.Differences = append(v.Differences, errs...)
	v.Differences = append(v.Differences, missing...)
	differences, compared := compareFiles(lists)
	v.Differences = append(v.Differences, differences...)
	v.Files = compared
	slices.Sort(v.Differences)
	slices.Sort(v.Behind)
	v.Equal = len(v.Differences) == 0
}

// collectFiles asks all nodes that keep history for their lists, all at once.
func (s *Server) collectFiles(ctx context.Context, nodes []NodeDigest) (lists map[string]cluster.FileList, errs []string) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.RequestTimeout)
	defer cancel()
	addrs := map[string]wire.NodeInfo{}
	for _, n := range s.node.Topology().Nodes {
		addrs[n.ID] = n
	}
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	lists = map[string]cluster.FileList{}
	for _, n := range nodes {
		if !n.KeepsHistory {
			continue // it cannot be compared, which its own configuration wants
		}
		if n.ID == s.node.NodeID() {
			list := s.node.FileList()
			mu.Lock()
			lists[n.ID] = list
			mu.Unlock()
			continue
		}
		wg.Go(func() {
			var list cluster.FileList
			err := s.askPeer(ctx, addrs[n.ID], "/v1/files", &list)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Sprintf("node %s: no list of files: %v", n.ID, err))
				return
			}
			lists[n.ID] = list
		})
	}
	wg.Wait()
	return lists, errs
}

// missing names the nodes that have not archived what is sealed.
func (w *historyWanted) missing(lists map[string]cluster.FileList) (list []string) {
	for id, l := range lists {
		if w.last > 0 && (l.Last < w.last || l.First > w.first) {
			list = append(list, fmt.Sprintf("node %s: behind: history has seqs %d to %d, %d to %d are sealed", id, l.First, l.Last, w.first, w.last))
		}
	}
	return list
}

// unwritten names the generations that nodes have not rewritten their windows into.
func (w *historyWanted) unwritten(lists map[string]cluster.FileList) (list []string) {
	for id, l := range lists {
		for _, g := range w.generations {
			if !written(l.Files, g) {
				list = append(list, fmt.Sprintf("node %s: behind: generation %d (windows %d to %d) is not written", id, g.Number, g.FirstWindow, g.LastWindow))
			}
		}
	}
	return list
}

// written tells whether files hold a generation, by itself or within a later one.
func written(files []cluster.FileInfo, g fsm.Generation) bool {
	return slices.ContainsFunc(files, func(f cluster.FileInfo) bool {
		return f.Kind == "generation" && f.FirstSeq <= g.FirstSeq && f.LastSeq >= g.LastSeq
	})
}

// compareFiles holds files of the same name against each other, and counts the names that more than one node has.
func compareFiles(lists map[string]cluster.FileList) (differences []string, compared int) {
	type first struct {
		node string
		file cluster.FileInfo
		seen int
	}
	files := map[string]*first{}
	ids := make([]string, 0, len(lists))
	for id := range lists {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		for _, f := range lists[id].Files {
			if f.Damaged {
				differences = append(differences, fmt.Sprintf("node %s: %s is damaged", id, f.Name))
			}
			x := files[f.Name]
			if x == nil {
				files[f.Name] = &first{id, f, 1}
				continue
			}
			if x.seen++; x.seen == 2 {
				compared++
			}
			if x.file.SHA256 != f.SHA256 || x.file.Size != f.Size {
				differences = append(differences, fmt.Sprintf("node %s: %s has %d bytes with SHA-256 %s, but %d with %s on %s", id, f.Name, f.Size, f.SHA256,
					x.file.Size, x.file.SHA256, x.node))
			}
		}
	}
	return differences, compared
}
