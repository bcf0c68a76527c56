package chat

import (
	"encoding/json"
	"slices"

	"turnout/gateway/llm"
)

// strictness is how flags that hold a model to a schema are sent. OpenAI refuses them, and the request,
// unless every object of the schema is closed and requires all it has; others' schemas need not.
type strictness struct {
	picky bool
	lost  bool // a flag was left out
}

// of is the flag as it goes with a schema, nil for none.
func (s *strictness) of(flag, schema llm.Raw) llm.Raw {
	var v any
	if !s.picky || string(flag) != "true" || json.Unmarshal(schema, &v) == nil && closed(v) {
		return flag
	}
	s.lost = true
	return nil
}

func closed(schema any) bool {
	switch v := schema.(type) {
	case []any:
		return !slices.ContainsFunc(v, func(s any) bool { return !closed(s) })
	case map[string]any:
		properties, has := v["properties"].(map[string]any)
		if has || v["type"] == "object" {
			if v["additionalProperties"] != false {
				return false
			}
			list, _ := v["required"].([]any)
			required := make(map[any]bool, len(list))
			for _, name := range list {
				if text, ok := name.(string); ok {
					required[text] = true
				}
			}
			for name := range properties {
				if !required[name] {
					return false
				}
			}
		}
		for key, inner := range v {
			switch key {
			case "properties", "$defs", "definitions":
				schemas, _ := inner.(map[string]any)
				for _, s := range schemas {
					if !closed(s) {
						return false
					}
				}
			case "items", "anyOf", "allOf", "oneOf":
				if !closed(inner) {
					return false
				}
			}
		}
	}
	return true
}
