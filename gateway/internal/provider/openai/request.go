package openai

import (
	"bytes"

	"turnout/gateway/internal/provider"
	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

// appendBody appends the body for the upstream: the client's bytes but for what the gateway must change
// (api.md, "Surfaces"), and reasoning that a translation told: OpenAI would look for it and refuse the rest.
func appendBody(dst []byte, call *provider.Call) []byte {
	f := call.Facts
	fields := f.Fields
	var room [8]jsonx.Edit
	edits := jsonx.Edits(room[:0])

	model := fields[f.At.Model-1]
	if name := jsonx.AppendString(nil, call.UpstreamModel); !bytes.Equal(name, call.Body[model.Value:model.End]) {
		edits.Replace(model.Value, model.End, name)
	}
	if call.StripToolChoice && f.At.ToolChoice > 0 {
		choice := fields[f.At.ToolChoice-1]
		edits.Replace(choice.Value, choice.End, []byte(`"auto"`))
	}
	dropOptions := false
	switch wanted := f.Stream && !call.Target.NoStreamUsage; {
	case call.Endpoint != attempt.EndpointChat: // usage comes unasked
	case !wanted:
		dropOptions = f.At.StreamOptions > 0
	case f.At.StreamOptions == 0:
		edits.Insert(fields[len(fields)-1].End, []byte(`,"stream_options":{"include_usage":true}`))
	case !f.IncludeUsage:
		askForUsage(&edits, call.Body, fields[f.At.StreamOptions-1])
	}
	if dropOptions || f.At.Routing > 0 || f.At.FreeModelsOnly > 0 || f.At.NoReasoning > 0 {
		edits.DeleteFields(fields, func(i int) bool {
			i++
			return dropOptions && i == f.At.StreamOptions || i == f.At.Routing || i == f.At.FreeModelsOnly || i == f.At.NoReasoning
		})
	}
	for _, item := range f.Unsigned {
		edits.Replace(item.Key, item.End, nil)
	}
	if len(f.Unsigned) > 0 {
		call.Stripped = []string{"reasoning"}
	}
	return edits.Apply(dst, call.Body)
}

// askForUsage turns include_usage on in a stream_options that leaves it out or off.
func askForUsage(edits *jsonx.Edits, body []byte, options jsonx.Field) {
	var c jsonx.Cursor
	c.ResetLoose(body[options.Value:options.End])
	if c.Kind() != jsonx.Object {
		edits.Replace(options.Value, options.End, []byte(`{"include_usage":true}`))
		return
	}
	empty := true
	for f := c.Object(); c.Next(&f); {
		empty = false
		if string(f.Key) == "include_usage" {
			start := options.Value + c.Pos()
			c.Skip()
			edits.Replace(start, options.Value+c.Pos(), []byte("true"))
			return
		}
	}
	ask := `,"include_usage":true`
	if empty {
		ask = ask[1:]
	}
	edits.Insert(options.End-1, []byte(ask))
}
