package workload

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// tree makes n topics of 2 to 5 segments under root, in a few partitions, with topics above topics.
func tree(r *rand.Rand, root string, n int) []string {
	topics := make([]string, 0, n)
	seen := map[string]bool{}
	for len(topics) < n {
		t := fmt.Sprintf("%s%d/%c", root, r.IntN(3), 'a'+rune(r.IntN(9)))
		for range r.IntN(4) {
			t += fmt.Sprintf("/%c", 'a'+rune(r.IntN(5)))
		}
		if !seen[t] {
			seen[t] = true
			topics = append(topics, t)
		}
	}
	return topics
}

// subset is one to three filters that match some of the topics.
func subset(r *rand.Rand, topics []string) []string {
	filters := make([]string, 1+r.IntN(3))
	for i := range filters {
		t := topics[r.IntN(len(topics))]
		if r.IntN(3) == 0 {
			filters[i] = t
			continue
		}
		segments := strings.Split(t, "/")
		filters[i] = strings.Join(segments[:1+r.IntN(len(segments))], "/") + "/**"
	}
	return filters
}
