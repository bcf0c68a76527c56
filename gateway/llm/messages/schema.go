package messages

import (
	"slices"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// unenforced are the keywords of a JSON schema that Anthropic refuses where it holds a model to one. The
// client, which knows its schema, can still check them.
var unenforced = map[string]bool{
	"minimum": true, "maximum": true, "exclusiveMinimum": true, "exclusiveMaximum": true, "multipleOf": true,
	"minLength": true, "maxLength": true, "maxItems": true, "uniqueItems": true, "minProperties": true, "maxProperties": true,
}

// enforced is a schema as Anthropic holds a model to one: every object is closed, oneOf is anyOf, and what
// it cannot enforce is left out and named.
func enforced(schema llm.Raw) (out llm.Raw, left []string) {
	if jsonx.KindOf(schema) != jsonx.Object {
		return schema, nil
	}
	w := schemaWriter{}
	w.ResetLoose(schema)
	return w.schema(make(llm.Raw, 0, len(schema)+32)), w.left
}

type schemaWriter struct {
	jsonx.Cursor
	left []string
}

func (w *schemaWriter) schema(b []byte) []byte {
	if w.Kind() != jsonx.Object {
		return append(b, w.Raw()...)
	}
	object, closed := false, false
	b = append(b, '{')
	w.EachField(func(key []byte) {
		name := string(key)
		switch name {
		case "properties", "$defs", "definitions", "patternProperties":
			object = object || name == "properties"
			b = w.named(jsonx.AddKey(b, name))
		case "additionalProperties":
			closed = true
			b = w.schema(jsonx.AddKey(b, name))
		case "items", "not":
			b = w.schema(jsonx.AddKey(b, name))
		case "oneOf":
			b = w.listed(jsonx.AddKey(b, "anyOf"))
		case "anyOf", "allOf", "prefixItems":
			b = w.listed(jsonx.AddKey(b, name))
		case "minItems":
			if n, ok := jsonx.Int64(w.Raw()); ok && n <= 1 {
				b = jsonx.AddInt(b, name, n)
				return
			}
			w.leave(name)
		default:
			if unenforced[name] {
				w.leave(name)
				return
			}
			raw := w.Raw()
			object = object || name == "type" && string(raw) == `"object"`
			b = append(jsonx.AppendString(jsonx.Comma(b), name), ':')
			b = append(b, raw...)
		}
	})
	if object && !closed {
		b = append(jsonx.AddKey(b, "additionalProperties"), "false"...)
	}
	return append(b, '}')
}

func (w *schemaWriter) leave(keyword string) {
	if name := "schema." + keyword; !slices.Contains(w.left, name) {
		w.left = append(w.left, name)
	}
}

// named writes an object whose values are schemas.
func (w *schemaWriter) named(b []byte) []byte {
	if w.Kind() != jsonx.Object {
		return append(b, w.Raw()...)
	}
	b = append(b, '{')
	w.EachField(func(key []byte) {
		b = append(jsonx.AppendString(jsonx.Comma(b), string(key)), ':')
		b = w.schema(b)
	})
	return append(b, '}')
}

// listed writes an array of schemas.
func (w *schemaWriter) listed(b []byte) []byte {
	if w.Kind() != jsonx.Array {
		return append(b, w.Raw()...)
	}
	b = append(b, '[')
	w.EachItem(func(int) { b = w.schema(jsonx.Comma(b)) })
	return append(b, ']')
}
