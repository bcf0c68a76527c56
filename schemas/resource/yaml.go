package resource

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parseYAML reads the documents of a YAML stream. Documents are told apart here and not by the
// library, which loses what follows a document of nothing but comments.
func parseYAML(data []byte) ([]*node, []error) {
	var out []*node
	var mistakes []error
	lines := strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n")
	start := 0
	for i := 0; i <= len(lines); i++ {
		if i < len(lines) && !separates(lines[i]) {
			continue
		}
		n, err := parseDocument(lines[start:i], start)
		if err != nil {
			mistakes = append(mistakes, err)
		}
		if n != nil {
			out = append(out, n)
		}
		if i == len(lines) {
			break
		}
		// What follows `---` on its line belongs to the document; it keeps its column.
		lines[i] = "   " + lines[i][3:]
		start = i
	}
	return out, mistakes
}

// separates says whether a line ends the document before it, which `---` and `...` do even inside
// block and quoted texts.
func separates(line string) bool {
	if !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "...") {
		return false
	}
	return len(line) == 3 || line[3] == ' ' || line[3] == '\t' || line[3] == '\r'
}

func parseDocument(lines []string, before int) (n *node, err error) {
	if err := tooDeep(lines, before); err != nil {
		return nil, err
	}
	// The library panics on some broken documents. A panic is a refusal like any other.
	defer func() {
		if r := recover(); r != nil {
			n, err = nil, &syntaxError{position{before + 1, 1}, "is not valid YAML"}
		}
	}()
	source := strings.Join(lines, "\n")
	file, err := parser.ParseBytes([]byte(source), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at := position{before + 1, 1}
		message := err.Error()
		if syntax := yaml.Error(nil); errors.As(err, &syntax) {
			message = syntax.GetMessage()
			if t := syntax.GetToken(); t != nil && t.Position != nil {
				at = position{before + t.Position.Line, t.Position.Column}
			}
		}
		return nil, &syntaxError{at, "is not valid YAML: " + message}
	}
	r := &yamlReader{lines: lines, before: before}
	for _, document := range file.Docs {
		if document.Body == nil {
			continue
		}
		if _, ok := document.Body.(*ast.CommentGroupNode); ok {
			continue
		}
		if n != nil {
			return nil, &syntaxError{r.position(document.Body.GetToken()), "is not valid YAML: unexpected content"}
		}
		if n, err = r.node(document.Body, 0); err != nil {
			return nil, err
		}
	}
	if n != nil && n.kind == null && strings.TrimSpace(source) == "" {
		return nil, nil
	}
	return n, nil
}

// tooDeep refuses nesting that would make the library recurse without bound.
func tooDeep(lines []string, before int) error {
	depth := 0
	for i, line := range lines {
		for j := range len(line) {
			switch line[j] {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > 500 {
				return &syntaxError{position{before + i + 1, j + 1}, "nests too deep"}
			}
		}
		if strings.Count(line, "- ") > 500 || strings.Count(line, "? ") > 500 || strings.Count(line, ": ") > 2000 {
			return &syntaxError{position{before + i + 1, 1}, "nests too deep"}
		}
	}
	return nil
}

type yamlReader struct {
	lines  []string
	before int // lines before these
}

// position is where a token starts. The library places some tokens on the space before them.
func (r *yamlReader) position(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{r.before + 1, 1}
	}
	line, column := t.Position.Line, t.Position.Column
	if line >= 1 && line <= len(r.lines) {
		for text := r.lines[line-1]; column >= 1 && column < len(text) && (text[column-1] == ' ' || text[column-1] == '\t'); {
			column++
		}
	}
	return position{r.before + line, max(1, column)}
}

func (r *yamlReader) node(in ast.Node, depth int) (*node, error) {
	at := r.position(in.GetToken())
	if depth > maxDepth {
		return nil, &syntaxError{at, "nests too deep"}
	}
	switch n := in.(type) {
	case *ast.NullNode:
		return &node{at: at}, nil
	case *ast.StringNode:
		return &node{kind: text, value: n.Value, at: at}, nil
	case *ast.LiteralNode:
		return &node{kind: text, value: n.Value.Value, at: at}, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return &node{kind: number, value: in.GetToken().Value, at: at}, nil
	case *ast.BoolNode:
		return &node{kind: boolean, value: fmt.Sprint(n.Value), at: at}, nil
	case *ast.SequenceNode:
		out := &node{kind: list, at: at}
		for _, value := range n.Values {
			item, err := r.node(value, depth+1)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, item)
		}
		return out, nil
	case *ast.MappingNode:
		return r.object(n.Values, depth)
	case *ast.MappingValueNode:
		return r.object([]*ast.MappingValueNode{n}, depth)
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return nil, &syntaxError{at, "anchors, aliases and merge keys are not supported: write the value out"}
	case *ast.TagNode:
		return nil, &syntaxError{at, "tags are not supported: leave " + in.GetToken().Value + " out"}
	}
	return nil, &syntaxError{at, "is not valid YAML: unexpected content"}
}

func (r *yamlReader) object(values []*ast.MappingValueNode, depth int) (*node, error) {
	out := &node{kind: object}
	for _, value := range values {
		at := r.position(value.Key.GetToken())
		switch value.Key.(type) {
		case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		case *ast.MergeKeyNode:
			return nil, &syntaxError{at, "anchors, aliases and merge keys are not supported: write the value out"}
		default:
			return nil, &syntaxError{at, "a field's name must be a plain word"}
		}
		item, err := r.node(value.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if item.kind == null && item.value == "" && item.at.line == 0 {
			item.at = at
		}
		out.fields = append(out.fields, field{key: value.Key.GetToken().Value, at: at, value: item})
	}
	if len(out.fields) > 0 {
		out.at = out.fields[0].at
	}
	return out, nil
}
