package publish

import (
	"fmt"
	"strings"

	"turnout/schemas/snapshot"
)

// sums adds up every counter of a slot.
var sums = func() string {
	columns := strings.Split(snapshot.SumColumns, ", ")
	for i, c := range columns {
		if c == "ttft_histogram" {
			columns[i] = "sumForEach(folds.ttft_histogram)"
			continue
		}
		columns[i] = "sum(folds." + c + ")"
	}
	return strings.Join(columns, ", ")
}()

func literal(numbers []int64) string {
	return strings.ReplaceAll(fmt.Sprint(numbers), " ", ", ")
}
