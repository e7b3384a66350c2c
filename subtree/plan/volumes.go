package plan

import (
	"fmt"
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
)

// Volume is what was published to one topic.
type Volume struct {
	Topic    string
	Messages uint64
	Bytes    uint64
}

// TableOf makes a topic table of a list of volumes. The same volumes give the same table in whatever order they come;
// a topic that comes twice counts both times.
func TableOf(volumes []Volume) (*topic.Table, error) {
	sorted := slices.Clone(volumes)
	slices.SortFunc(sorted, func(a, b Volume) int { return comparePaths(a.Topic, b.Topic) })
	t := topic.NewTable(max(1, len(sorted)))
	for _, v := range sorted {
		id, _, err := t.Intern([]byte(v.Topic))
		if err != nil {
			return nil, fmt.Errorf("plan: make a table of volumes: %w", err)
		}
		t.Add(id, v.Messages, v.Bytes, 0)
	}
	return t, nil
}
