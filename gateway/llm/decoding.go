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
	images  []Part // that the model made and no user's turn holds yet
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
	if d.images != nil {
		d.Request.Messages = append(d.Request.Messages, Message{Parts: d.User(nil)})
	}
	return d.Request, nil
}

// System adds what the system says to the request, where it says it.
func (d *Decoding) System(parts ...Part) {
	for _, p := range parts {
		p.At = len(d.Request.Messages)
		d.Request.System = append(d.Request.System, p)
	}
}

// Made keeps an image of the model's own for the user's next turn: no other protocol takes one in an
// assistant's.
func (d *Decoding) Made(image Part) { d.images = append(d.images, image) }

// User puts in front of what a user says the images that the model made before.
func (d *Decoding) User(parts []Part) []Part {
	if d.images == nil {
		return parts
	}
	parts = append(d.images, parts...)
	d.images = nil
	return parts
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
