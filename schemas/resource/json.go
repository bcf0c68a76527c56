package resource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// parseJSON reads JSON values, one after the other.
func parseJSON(data []byte) ([]*node, error) {
	r := &jsonReader{data: data, decoder: json.NewDecoder(bytes.NewReader(data))}
	r.decoder.UseNumber()
	var out []*node
	for {
		n, err := r.value(0)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, r.failure(err)
		}
		out = append(out, n)
	}
}

type jsonReader struct {
	data    []byte
	decoder *json.Decoder
	offset  int // up to where at counted
	at      position
}

// next returns the coming token and where it starts.
func (r *jsonReader) next() (json.Token, position, error) {
	start := int(r.decoder.InputOffset())
	for start < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[start]) >= 0 {
		start++
	}
	at := r.position(start)
	token, err := r.decoder.Token()
	return token, at, err
}

// position counts lines and columns (in bytes) up to an offset. Offsets only grow.
func (r *jsonReader) position(offset int) position {
	if r.at.line == 0 {
		r.at = position{1, 1}
	}
	for ; r.offset < offset && r.offset < len(r.data); r.offset++ {
		if r.data[r.offset] == '\n' {
			r.at = position{r.at.line + 1, 1}
			continue
		}
		r.at.column++
	}
	return r.at
}

func (r *jsonReader) value(depth int) (*node, error) {
	token, at, err := r.next()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, &syntaxError{at, "nests too deep"}
	}
	n := &node{at: at}
	switch t := token.(type) {
	case nil:
	case string:
		n.kind, n.value = text, t
	case json.Number:
		n.kind, n.value = number, t.String()
	case bool:
		n.kind, n.value = boolean, fmt.Sprint(t)
	case json.Delim:
		if t == '[' {
			n.kind = list
			for r.decoder.More() {
				item, err := r.value(depth + 1)
				if err != nil {
					return nil, noEOF(err)
				}
				n.items = append(n.items, item)
			}
		} else {
			n.kind = object
			for r.decoder.More() {
				key, keyAt, err := r.next()
				if err != nil {
					return nil, noEOF(err)
				}
				value, err := r.value(depth + 1)
				if err != nil {
					return nil, noEOF(err)
				}
				n.fields = append(n.fields, field{key: key.(string), at: keyAt, value: value})
			}
		}
		if _, err := r.decoder.Token(); err != nil {
			return nil, noEOF(err)
		}
	}
	return n, nil
}

// noEOF keeps the end of the input inside a value from passing for the end of the documents.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *jsonReader) failure(err error) error {
	if own := (*syntaxError)(nil); errors.As(err, &own) {
		return own
	}
	offset := len(r.data)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF) {
		offset = max(int(r.decoder.InputOffset()), min(int(syntax.Offset)-1, len(r.data)))
	}
	message := err.Error()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		message = "ends in the middle of a value"
	}
	return &syntaxError{r.position(offset), "is not valid JSON: " + message}
}
