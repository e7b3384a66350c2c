package subtree

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
)

// TopicVolume is what history holds of a topic in a range of windows.
type TopicVolume struct {
	Topic           topic.ID
	Messages, Bytes uint64 // bytes of records with padding
}

// Volumes tells, for each partition that has messages in a range of windows, in order of its node, the volumes of its
// topics in order of their ids. The range must cover whole files (ErrOutOfOrder). The slice is fn's during the call.
func (s *Store) Volumes(firstWindow, lastWindow uint64, fn func(partition topic.ID, topics []TopicVolume) error) error {
	files, err := s.cover(firstWindow, lastWindow)
	if err == nil && (files[0].meta.FirstWindow != firstWindow || files[len(files)-1].meta.LastWindow != lastWindow) {
		err = fmt.Errorf("the range is part of a generation: %w", ErrOutOfOrder)
	}
	if err != nil {
		return fmt.Errorf("subtree: volumes of windows %d to %d: %w", firstWindow, lastWindow, err)
	}
	r := rewriter{s: s, files: files}
	r.merge.reader = reader{op: "read", cache: s.cache}
	held, err := r.hold()
	defer func() {
		for _, f := range held {
			s.release(f)
		}
	}()
	if errors.Is(err, errReplaced) {
		err = fmt.Errorf("subtree: volumes of windows %d to %d: %w: %w", firstWindow, lastWindow, err, ErrOutOfOrder)
	}
	if err != nil {
		return err
	}
	for _, node := range r.nodes() {
		list, err := r.volumes(node)
		if err != nil {
			return s.noteDamage(err)
		}
		if err := fn(node, list); err != nil {
			return err
		}
	}
	return nil
}

// volumes adds up what the files' directories say of a partition.
func (r *rewriter) volumes(node topic.ID) ([]TopicVolume, error) {
	var list []TopicVolume
	for _, f := range r.files {
		p := f.foot.find(node)
		if p == nil {
			continue
		}
		err := r.merge.eachTopic(f, p, func(e entry) bool {
			list = append(list, TopicVolume{e.topic, e.messages, e.bytes})
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(list, func(a, b TopicVolume) int { return cmp.Compare(a.Topic, b.Topic) })
	sums := list[:0]
	for _, v := range list {
		if n := len(sums); n > 0 && sums[n-1].Topic == v.Topic {
			sums[n-1].Messages += v.Messages
			sums[n-1].Bytes += v.Bytes
			continue
		}
		sums = append(sums, v)
	}
	return sums, nil
}
