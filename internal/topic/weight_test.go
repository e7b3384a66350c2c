package topic

import (
	"slices"
	"testing"
)

func TestListByWeight(t *testing.T) {
	table := NewTable(100)
	weights := map[string]float64{"a/light": 0.5, "a/none": 0, "b/heavy": 1e9, "b/mid": 3}
	for _, name := range []string{"a/light", "a/none", "b/heavy", "b/mid"} {
		if _, _, err := table.Intern([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	weight := func(id ID) float64 { return weights[table.Name(id)] }
	page, total := table.List(ListOptions{Weight: weight, Sort: SortName, Offset: 1, Limit: 2})
	var got []string
	for _, v := range page {
		got = append(got, v.Topic)
	}
	if want := []string{"b/mid", "a/light"}; total != 4 || !slices.Equal(got, want) {
		t.Errorf("rows 1 and 2 by weight: %v of %d; want %v of 4", got, total, want)
	}
	page, _ = table.List(ListOptions{Depth: 1, Weight: func(id ID) float64 { return float64(len(table.Name(id))) + float64(id) }})
	if len(page) != 2 || page[0].Topic != "b" || page[1].Topic != "a" {
		t.Errorf("groups by weight: %+v", page)
	}
}
