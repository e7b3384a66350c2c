package config

import "slices"

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// didYouMean names the nearest candidate if it is near enough to be a slip of the finger, else nothing.
func didYouMean(word string, candidates []string) string {
	best, bestDistance := "", len(word)/3+1
	for _, c := range candidates {
		if d := editDistance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if best == "" || best == word {
		return ""
	}
	return "; did you mean " + best + "?"
}

// editDistance counts the single-byte insertions, deletions and replacements between a and b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
