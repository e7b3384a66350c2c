package run

import (
	"fmt"
	"slices"
	"strings"
)

// find returns those of all that names name, in the order of names, or all if there are none.
func find[T any](what string, all []T, names []string, nameOf func(T) string) (list []T, err error) {
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(v T) bool { return nameOf(v) == name })
		if i < 0 {
			known := make([]string, len(all))
			for i, v := range all {
				known[i] = nameOf(v)
			}
			return nil, fmt.Errorf("%s %q is unknown: there are %s", what, name, strings.Join(known, ", "))
		}
		list = append(list, all[i])
	}
	return list, nil
}

// FindBugs returns the planted bugs of these tags, or all if there are none.
func FindBugs(tags []string) ([]Bug, error) {
	return find("planted bug", Bugs(), tags, func(b Bug) string { return b.Tag })
}

// FindGuards returns the guards of these tags, or all if there are none.
func FindGuards(tags []string) ([]Guard, error) {
	return find("guard", Guards(), tags, func(g Guard) string { return g.Tag })
}
