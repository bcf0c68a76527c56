package anthropic

import (
	"bytes"

	"turnout/gateway/internal/provider"
	"turnout/internal/jsonx"
)

// appendBody appends the body for the upstream: the client's bytes but for the model, what is ours, and
// reasoning that nobody signed: other providers' answers have it, and Anthropic would refuse it.
func appendBody(dst []byte, call *provider.Call) []byte {
	f := call.Facts
	var room [8]jsonx.Edit
	edits := jsonx.Edits(room[:0])
	model := f.Fields[f.At.Model-1]
	if name := jsonx.AppendString(nil, call.UpstreamModel); !bytes.Equal(name, call.Body[model.Value:model.End]) {
		edits.Replace(model.Value, model.End, name)
	}
	if call.StripToolChoice && f.At.ToolChoice > 0 {
		choice := f.Fields[f.At.ToolChoice-1]
		edits.Replace(choice.Value, choice.End, []byte(`{"type":"auto"}`))
	}
	if f.At.Routing > 0 || f.At.FreeModelsOnly > 0 || f.At.NoReasoning > 0 {
		edits.DeleteFields(f.Fields, func(i int) bool {
			i++
			return i == f.At.Routing || i == f.At.FreeModelsOnly || i == f.At.NoReasoning
		})
	}
	for _, block := range f.Unsigned {
		edits.Replace(block.Key, block.End, nil)
	}
	if len(f.Unsigned) > 0 {
		call.Stripped = []string{"thinking"}
	}
	return edits.Apply(dst, call.Body)
}
