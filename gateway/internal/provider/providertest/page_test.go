package providertest

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"turnout/schemas/attempt"
)

// page is docs/protocols.md.
const page = "../../../../docs/protocols.md"

// column is one of the page: what the golden files of one conformance run say.
type column struct {
	dir           string // of its golden files
	protocol      string
	name, about   string
	how           map[string]string   // surface: as it came, translated or not offered
	lacks         map[string][]string // surface: words of capabilities
	dataOnly      bool
	leftOut, cant map[string]bool // words of parameters; why a feature cannot be
}

// columns finds every conformance run that left golden files.
func columns(t *testing.T) (found []*column) {
	files, err := filepath.Glob("../*/testdata/" + offersFile)
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../*/testdata/*/" + offersFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, more...) {
		u := &column{dir: filepath.Dir(file), how: map[string]string{}, lacks: map[string][]string{}, leftOut: map[string]bool{}, cant: map[string]bool{}}
		u.name = strings.Replace(strings.TrimPrefix(u.dir, "../"), "/testdata", "", 1)
		u.protocol, _, _ = strings.Cut(u.name, "/")
		for line := range strings.Lines(read(t, file)) {
			surface, says, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			if surface == "about" {
				u.about = says
				continue
			}
			for i, part := range strings.Split(says, "; ") {
				switch lacks, ok := strings.CutPrefix(part, "without "); {
				case i == 0:
					u.how[surface] = part
				case ok:
					u.lacks[surface] = strings.Fields(lacks)
				default:
					u.dataOnly = true
				}
			}
		}
		found = append(found, u)
	}
	slices.SortFunc(found, func(a, b *column) int { return cmp.Compare(a.name, b.name) })
	return found
}

func read(t *testing.T, file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// cell says what becomes of a feature; "" where the surface has no words for it, or the upstream nothing
// for the surface.
func (u *column) cell(t *testing.T, surface string, f *feature) string {
	if f.bodies[surface] == "" || u.how[surface] == notOffered || u.how[surface] == "" {
		return ""
	}
	text := read(t, filepath.Join(u.dir, surface, f.file()))
	if why, ok := strings.CutPrefix(text, notPossible); ok {
		why, _, _ = strings.Cut(strings.TrimSuffix(strings.TrimSpace(why), ")"), ": ")
		u.cant[why] = true
		return "no"
	}
	if why, ok := strings.CutPrefix(text, refused); ok {
		return "refused: " + strings.TrimSpace(why)
	}
	_, words, ok := strings.Cut(text, "\n"+stripped)
	if !ok {
		return "yes"
	}
	var without []string
	for _, word := range strings.Fields(words) {
		u.leftOut[word] = true
		without = append(without, "`"+word+"`")
	}
	return "without " + strings.Join(without, ", ")
}

// reasons say why something cannot be said, for a protocol or for all. Where there is none, the protocol
// has no word for it.
var reasons = map[string]string{
	"audio":               "the vendor's models take no sound",
	"json_object":         "nothing but a schema holds the models to JSON",
	"n":                   "translations bring one answer",
	"web_search":          "every vendor's search has parameters and results of its own, which no other can say",
	byAddress:             "it takes bytes, and the gateway fetches nothing",
	"temperature":         "values above the vendor's largest are cut to it, and where a model thinks it is left out",
	"reasoning_effort":    "who has to call a tool cannot think first",
	"made_up":             "fields that the gateway does not know go on only where the protocol is the same",
	"metadata":            "labels for what OpenAI stores",
	"store":               "nothing is stored",
	"context_management":  "Anthropic's own editing of the conversation",
	"thinking":            "reasoning goes back to its issuer alone: nobody else can verify it",
	"reasoning_content":   "reasoning goes back to its issuer alone: nobody else can verify it",
	"strict":              "there is no switch that holds a tool's arguments to its schema",
	"detail":              "how closely images are looked at is the vendor's choice",
	"filename":            "data has no name there",
	"cache_control":       "the vendor caches by itself",
	"is_error":            "what the call brought has to say so itself",
	"top_p":               "newer Claude models take it or the temperature, from 4.7 on neither",
	"user":                "there is no field for the client's user",
	"gemini logprobs":     "they come in another form",
	"gemini top_logprobs": "they come in another form",
}

// byAddress is what images and files are to protocols that take data alone.
const byAddress = "an address instead of data"

func (u *column) why(word string) string {
	return cmp.Or(reasons[u.protocol+" "+word], reasons[word], "the protocol has no word for it")
}

var surfaceNames = map[string]string{
	attempt.EndpointChat: "Chat completions", attempt.EndpointMessages: "Messages", attempt.EndpointResponses: "Responses", attempt.EndpointEmbeddings: "Embeddings",
}

func write(t *testing.T) string {
	found := columns(t)
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	row := func(cells ...string) { line("| %s |", strings.Join(cells, " | ")) }
	head := func(first string, offering []*column) {
		cells, rule := []string{first}, "|---|"
		for _, u := range offering {
			cells, rule = append(cells, u.name), rule+"---|"
		}
		row(cells...)
		line("%s", rule)
	}
	line("# Protocols: what passes, feature by feature\n")
	line("Made from the golden files of the conformance suite by `go test ./gateway/internal/provider/providertest -run TestPage -update`, and held to them by the same test. Not to be edited by hand.\n")
	line("Rows are what a client can ask for; columns are upstream protocols. `yes`: the upstream is asked for it, in its own words. `without`: it is asked for the rest, and what is left out is listed in the event's `stripped_parameters`. `no`: leaving it out would change the meaning, so the mapping is no candidate. Empty: the surface has no words for it. The exact request stands in the golden file: `gateway/internal/provider/PROTOCOL/testdata/SURFACE/FEATURE.txt`. `ours` are the gateway's own fields, which never go upstream.\n")
	for _, u := range found {
		if u.about != "" {
			line("- `%s`: %s", u.name, u.about)
		}
	}
	line("\n## Surfaces\n")
	line("`as it came`: the bytes are passed through but for what the gateway must change.\n")
	head("surface", found)
	for _, surface := range surfaces {
		cells := []string{surfaceNames[surface]}
		for _, u := range found {
			cells = append(cells, u.how[surface])
		}
		row(cells...)
	}
	for _, surface := range surfaces {
		var offering []*column
		for _, u := range found {
			if how := u.how[surface]; surface != attempt.EndpointEmbeddings && how != "" && how != notOffered {
				offering = append(offering, u)
			}
		}
		if offering == nil {
			continue
		}
		line("\n## %s\n", surfaceNames[surface])
		head("feature", offering)
		for i := range features {
			if features[i].bodies[surface] == "" {
				continue
			}
			cells := []string{features[i].name}
			for _, u := range offering {
				cells = append(cells, u.cell(t, surface, &features[i]))
			}
			row(cells...)
		}
	}
	line("\n## What is not possible, and why\n")
	row("what", "becomes", "with", "because")
	line("|---|---|---|---|")
	for _, r := range whys(found) {
		row(r...)
	}
	line("")
	line("What belongs to one vendor alone (files by their id, tools that the vendor runs, items of OpenAI's tools, batches) is no feature of this table: it passes where the protocol is the same, and elsewhere the mapping is no candidate.\n")
	line("## Answers, streams and faults\n")
	line("On each surface above, every protocol is also tried with these answers, plain and as a stream, and what the client sees is read back by code that shares nothing with the gateway's: %s. So are usage and finish reasons in the event, streams cut at every kind of place, byte by byte, without an end marker, with errors in band and malformed events, error answers of every class, silence, and clients that leave.", strings.Join(slices.Sorted(maps.Keys(answerKinds)), ", "))
	return b.String()
}

// whys are the rows about what is not possible: what, what becomes of it, where, and why.
func whys(found []*column) (rows [][]string) {
	where, words := map[[3]string][]string{}, map[[3]string][]string{}
	for _, u := range found {
		for word := range u.cant {
			key := [3]string{word, "no", u.why(word)}
			where[key] = append(where[key], u.name)
		}
		for word := range u.leftOut {
			key := [3]string{word, "left out", u.why(word)}
			where[key] = append(where[key], u.name)
		}
	}
	for key, names := range where { // those of the same fate share a row
		fate := [3]string{key[1], strings.Join(names, ", "), key[2]}
		words[fate] = append(words[fate], "`"+key[0]+"`")
	}
	for fate, list := range words {
		slices.Sort(list)
		rows = append(rows, []string{strings.Join(list, ", "), fate[0], fate[1], fate[2]})
	}
	slices.SortFunc(rows, func(a, b []string) int { return cmp.Or(-cmp.Compare(a[1], b[1]), slices.Compare(a, b)) })
	return rows
}

// TestPage holds docs/protocols.md to the golden files.
func TestPage(t *testing.T) {
	want := write(t)
	if len(columns(t)) < 5 {
		t.Fatalf("%d conformance runs were found", len(columns(t)))
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := read(t, page); got != want {
		t.Errorf("%s does not say what the golden files say; `go test ./gateway/internal/provider/providertest -run TestPage -update` writes it anew", page)
	}
}
