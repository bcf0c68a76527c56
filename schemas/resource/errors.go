package resource

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one mistake in a resource document.
type Error struct {
	File         string
	Line, Column int    // from 1
	Document     string // kind and id where known, such as "model gpt-5.4"
	Path         string // within the document, such as mappings[0].price.input; "document" for the whole
	Message      string // what is wrong and what to do
}

func (e *Error) Error() string {
	document := e.Document
	if document != "" {
		document += ": "
	}
	return fmt.Sprintf("%s:%d:%d: %s%s: %s", e.File, e.Line, e.Column, document, e.Path, e.Message)
}

// Errors are all mistakes of a set of documents, by file and position.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find the single mistakes.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, one := range e {
		out[i] = one
	}
	return out
}

func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return e
}
