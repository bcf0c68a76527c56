package resource

import (
	"cmp"
	"slices"
	"strings"
)

// Nearest returns up to n of the words that are close to word by edit distance, the closest first;
// upper and lower case count as equal. A word is close if no more than a third of the longer one, and
// at least two letters, would have to change.
func Nearest(word string, among []string, n int) []string {
	type scored struct {
		word     string
		distance int
	}
	lower := strings.ToLower(word)
	var close []scored
	for _, candidate := range among {
		longest := max(len(word), len(candidate))
		bound := max(2, longest/3)
		if candidate == "" || bound >= longest {
			continue
		}
		if d := distance(lower, strings.ToLower(candidate), bound); d <= bound {
			close = append(close, scored{candidate, d})
		}
	}
	slices.SortStableFunc(close, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.word, b.word))
	})
	out := make([]string, 0, n)
	for _, c := range close {
		if len(out) < n && !slices.Contains(out, c.word) {
			out = append(out, c.word)
		}
	}
	return out
}

// distance is the Levenshtein distance in bytes, or something above bound once it is certain that it
// is above.
func distance(a, b string, bound int) int {
	if d := len(a) - len(b); d > bound || -d > bound {
		return bound + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		previous := row[0]
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			change := previous
			if a[i] != b[j] {
				change++
			}
			previous = row[j+1]
			row[j+1] = min(change, row[j]+1, previous+1)
			least = min(least, row[j+1])
		}
		if least > bound {
			return bound + 1
		}
	}
	return row[len(b)]
}
