package llm

import "turnout/internal/jsonx"

// Decoding is what the decoders of all surfaces have in common: a cursor, what it makes of a request, and
// the first part of it that cannot be understood. The zero value is ready for answers; requests begin with
// Begin.
type Decoding struct {
	jsonx.Cursor
	Request *Request

	at      int
	problem string // "": none so far
}

// Begin starts on the body of a request.
func (d *Decoding) Begin(body []byte) {
	d.Request = new(Request)
	d.ResetLoose(body)
}

// Refuse notes that what stands at offset at cannot be understood.
func (d *Decoding) Refuse(at int, problem string) {
	if d.problem == "" {
		d.at, d.problem = at, problem
	}
}

// Done gives the request, or a client_error with the path of what could not be understood.
func (d *Decoding) Done(body []byte) (*Request, *Error) {
	if d.problem != "" {
		return nil, InvalidRequest(body, d.at, d.problem)
	}
	return d.Request, nil
}

// Flag reads a boolean; everything else is false.
func (d *Decoding) Flag() bool {
	if d.Kind() != jsonx.Bool {
		d.Skip()
		return false
	}
	return d.Bool()
}

// Content reads a text, or a list whose elements part reads; ok is false for those that are left out.
func (d *Decoding) Content(part func() (p Part, ok bool)) (parts []Part) {
	if d.Kind() == jsonx.String {
		if text := d.Raw(); Filled(text) {
			parts = append(parts, Part{Kind: PartText, Text: text})
		}
		return parts
	}
	d.EachItem(func(int) {
		if p, ok := part(); ok {
			parts = append(parts, p)
		}
	})
	return parts
}

// ChoiceWord reads a choice of tools that is one of OpenAI's words; false: it is none, and not read.
func (d *Decoding) ChoiceWord() bool {
	if d.Kind() != jsonx.String {
		return false
	}
	at := d.Pos()
	switch c := &d.Request.Choice; jsonx.RawText(d.Raw()) {
	case "auto":
		c.Mode = ChoiceAuto
	case "none":
		c.Mode = ChoiceNone
	case "required", "any": // any is Mistral's
		c.Mode = ChoiceRequired
	default:
		d.Refuse(at, "must be auto, none, required, or an object that names a function")
	}
	return true
}

// Filled says whether a raw string holds anything.
func Filled(raw []byte) bool { return len(raw) > len(`""`) }

// OnlyResults says whether parts hold nothing but what tool calls brought.
func OnlyResults(parts []Part) bool {
	for i := range parts {
		if parts[i].Kind != PartResult {
			return false
		}
	}
	return true
}
