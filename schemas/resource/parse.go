package resource

import (
	"errors"
	"fmt"
	"strings"
)

// Source is one file of resources.
type Source struct {
	Name string // JSON if it ends in .json (documents one after the other or in one array), else YAML; errors name it
	Data []byte
}

// Parse reads documents, fills in what is not set and checks what refers to what. The error, if any,
// is Errors and holds every mistake; the set is then nil.
func Parse(sources ...Source) (*Set, error) {
	d := newDecoder()
	for _, source := range sources {
		roots, mistakes := parseSource(source)
		for _, err := range mistakes {
			d.syntax(source.Name, err)
		}
		if len(roots) == 1 && roots[0].kind == list && strings.HasSuffix(source.Name, ".json") {
			roots = roots[0].items
		}
		for i, root := range roots {
			d.document(source.Name, i+1, root)
		}
	}
	for _, check := range d.later {
		check()
	}
	if len(d.mistakes) > 0 {
		return nil, d.mistakes.sorted()
	}
	return &d.set, nil
}

// ParseRouting reads a project's routing configuration alone, YAML or JSON by the name's ending, and
// merges it over the defaults. Errors name their places below path.
func ParseRouting(source Source, path string) (Routing, error) {
	d := newDecoder()
	roots, mistakes := parseSource(source)
	for _, err := range mistakes {
		d.syntax(source.Name, err)
	}
	routing := DefaultRouting()
	if len(roots) > 1 {
		cursor{d: d, file: source.Name, path: path, node: roots[1]}.fail("is a second document: one belongs here")
	}
	if len(roots) > 0 && roots[0].kind != null {
		routing = cursor{d: d, file: source.Name, path: path, node: roots[0]}.routing()
	}
	// Providers are not known here, so d.later, which looks for them, is left alone.
	if len(d.mistakes) > 0 {
		return Routing{}, d.mistakes.sorted()
	}
	return routing, nil
}

func parseSource(source Source) ([]*node, []error) {
	if !strings.HasSuffix(source.Name, ".json") {
		return parseYAML(source.Data)
	}
	roots, err := parseJSON(source.Data)
	if err != nil {
		return nil, []error{err}
	}
	return roots, nil
}

func (d *decoder) syntax(file string, err error) {
	at := position{1, 1}
	if syntax := (*syntaxError)(nil); errors.As(err, &syntax) {
		at = syntax.at
	}
	cursor{d: d, file: file, node: &node{at: at}}.fail("%s", err)
}

func (d *decoder) document(file string, number int, root *node) {
	if root.kind == null {
		return
	}
	c := cursor{d: d, file: file, document: fmt.Sprintf("document %d", number), node: root}
	if root.kind == object {
		c.document = label(root, c.document)
	}
	c.object(func(o *fields) {
		var kind string
		if k, ok := o.need("kind", "one of "+strings.Join(documentKinds, ", ")); !ok || !k.word(&kind, documentKinds) {
			// Without a kind nothing else can be judged.
			for i := range o.taken {
				o.taken[i] = true
			}
			return
		}
		switch kind {
		case KindProvider:
			o.provider()
		case KindModel:
			o.model()
		case KindOrganization:
			o.organization()
		case KindProject:
			o.project()
		case KindAPIKey:
			o.apiKey()
		case KindProviderKey:
			o.providerKey()
		}
	})
}

// label names a document by kind and id as far as they are there.
func label(root *node, otherwise string) string {
	var kind, id string
	for _, f := range root.fields {
		if f.key == "kind" && f.value.kind == text {
			kind = f.value.value
		}
		if f.key == "id" && f.value.kind == text {
			id = f.value.value
		}
	}
	if kind == "" || id == "" || len(id) > 200 || strings.ContainsAny(kind+id, "\n\r") {
		return otherwise
	}
	return kind + " " + id
}
