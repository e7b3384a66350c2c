package cluster

import "testing"

// TestAnswersOfOthersDoNotCount: a new node at the address of a dead voter is given its questions. Its answer is not the voter's.
func TestAnswersOfOthersDoNotCount(t *testing.T) {
	var a asks
	a.init()
	q := question{of: "old", answer: make(chan answer, 1)}
	a.mu.waiting[7] = q
	a.answered("new", answer{ID: 7, Applied: 1})
	a.answered("", answer{ID: 7, Applied: 1})
	if len(q.answer) != 0 {
		t.Fatal("another node's answer was taken for the one asked")
	}
	a.answered("old", answer{ID: 7, Applied: 2})
	a.answered("old", answer{ID: 7, Applied: 3}) // the question was repeated, and so was its answer
	if len(q.answer) != 1 || (<-q.answer).Applied != 2 {
		t.Fatal("the node's own answer was not taken, or twice")
	}
}
