package cluster

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cantus-bus/cantus/internal/pause"
)

const (
	diskInterval = time.Second
	// stepAsideAfter is how many bad readings in a row make a leader hand over to a node that is well.
	stepAsideAfter = 2
)

// freeBytes is what an unprivileged process may still write to the disk of dir.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// checkDisk reads the free space once and notes whether it is below the limit.
func (n *Node) checkDisk() {
	free, err := n.opts.FreeBytes(n.opts.DataDir)
	if err != nil {
		n.log.Warn("cannot read the free space of the data folder's disk", "dir", n.opts.DataDir, "error", err)
		return
	}
	n.metrics.diskFree.Set(float64(free))
	low := n.opts.MinFreeBytes > 0 && free < n.opts.MinFreeBytes
	if n.diskLow.Swap(low) != low {
		n.log.Warn("free disk space passed the limit", "free_bytes", free, "limit_bytes", n.opts.MinFreeBytes, "publishes_refused", low)
	}
}

// watchDisk checks the disk until stop. A leader whose disk is low, or takes no history, hands over to a voter that is well: before
// its tip is full of what is not archived, and applying waits.
func (n *Node) watchDisk(ctx context.Context) {
	lows := 0
	for pause.For(ctx, diskInterval) {
		n.checkDisk()
		if !n.isLeader() || !n.diskLow.Load() && !n.stream.archivingFails() {
			lows = 0
			continue
		}
		if lows++; lows >= stepAsideAfter {
			lows = 0
			n.stepAside(ctx)
		}
	}
}

// archivingFails tells whether the last attempt to archive a window has failed.
func (s *Stream) archivingFails() bool {
	return s.history != nil && s.history.archiver.problem.get() != ""
}

// stepAside transfers the leadership to a healthy voter with room on its disk, if there is one.
func (n *Node) stepAside(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for id, a := range n.gossip.askAll(ctx, n.otherVoters()) {
		if a.DiskLow || a.Problem != "" {
			continue
		}
		n.log.Warn("handing over the leadership: the disk here is nearly full or takes no history", "to", id)
		if err := n.transferTo(id); err != nil {
			n.log.Warn("hand-over failed", "to", id, "error", err)
		}
		return
	}
}
