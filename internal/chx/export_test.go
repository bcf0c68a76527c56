package chx

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// DataCodeNames returns what errors.go says that the codes of refused data are called.
func DataCodeNames(t *testing.T) map[int32]string {
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[int32]string{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\d+),\s+// ([A-Z_]+)$`).FindAllSubmatch(source, -1) {
		code, err := strconv.ParseInt(string(m[1]), 10, 32)
		if err != nil || !slices.Contains(dataCodes, int32(code)) {
			t.Fatalf("%s: %v", m[0], err)
		}
		names[int32(code)] = string(m[2])
	}
	if len(names) != len(dataCodes) {
		t.Fatalf("%d of %d codes have a name", len(names), len(dataCodes))
	}
	return names
}
