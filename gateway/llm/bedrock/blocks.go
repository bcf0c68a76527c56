package bedrock

import (
	"strconv"
	"strings"

	"turnout/gateway/llm"
	"turnout/gateway/llm/messages"
	"turnout/internal/jsonx"
)

// turns are the messages as Converse takes them: the roles alternate, and nothing is empty.
func (w *writer) turns(all []llm.Message) (out []llm.Message) {
	for i := range all {
		m := &all[i]
		for j := range m.Parts {
			p := &m.Parts[j]
			if !w.says(p) {
				continue
			}
			if n := len(out); n == 0 || out[n-1].Assistant != m.Assistant {
				out = append(out, llm.Message{Assistant: m.Assistant})
			}
			last := &out[len(out)-1]
			last.Parts = append(last.Parts, *p)
		}
	}
	return out
}

// says whether a part can be said.
func (w *writer) says(p *llm.Part) bool {
	switch p.Kind {
	case llm.PartText, llm.PartRefusal:
		return !blank(p.Text)
	case llm.PartThinking:
		if w.family == claude && (llm.Filled(p.Signature) || llm.SafeBase64(p.Redacted)) {
			return true
		}
		w.strip("reasoning_content") // a model takes back its own alone
		return false
	case llm.PartImage, llm.PartDocument:
		if p.Data == nil { // requests with addresses are not sent here
			w.strip("url")
			return false
		}
	}
	return true
}

// blank says whether a raw string is nothing but white space, which Converse refuses.
func blank(raw llm.Raw) bool {
	if len(raw) < len(`""`) {
		return true
	}
	for _, c := range raw[1 : len(raw)-1] {
		switch {
		case c == '\\' || c >= 0x80:
			return strings.TrimSpace(jsonx.RawText(raw)) == ""
		case c != ' ':
			return false
		}
	}
	return true
}

func (w *writer) turn(b []byte, m *llm.Message) []byte {
	role := "user"
	if m.Assistant {
		role = "assistant"
	}
	b = jsonx.AddString(append(jsonx.Comma(b), '{'), "role", role)
	b = append(jsonx.AddKey(b, "content"), '[')
	var document *llm.Part
	text := false
	for i := range m.Parts {
		p := &m.Parts[i]
		b = w.cachePoint(w.block(b, p), p)
		text = text || p.Kind == llm.PartText
		if p.Kind == llm.PartDocument {
			document = p
		}
	}
	if document != nil && !text { // a document alone is refused
		b = append(jsonx.AddString(append(jsonx.Comma(b), '{'), "text", documentName(document)), '}')
	}
	return append(b, "]}"...)
}

// cachePoint appends the mark that a part ends what is to be cached.
func (w *writer) cachePoint(b []byte, p *llm.Part) []byte {
	cache := p.Cache
	for i := range p.Parts { // none may stand inside a result
		if c := p.Parts[i].Cache; c != nil {
			cache = c
		}
	}
	if cache == nil {
		return b
	}
	if !w.family.caches() {
		w.strip("cache_control")
		return b
	}
	ttl := ""
	var c jsonx.Cursor
	c.ResetLoose(cache)
	c.EachField(func(key []byte) {
		if string(key) == "ttl" {
			ttl = jsonx.RawText(c.RawString())
		}
	})
	b = append(jsonx.Comma(b), `{"cachePoint":{"type":"default"`...)
	if ttl == "1h" && w.family == claude && messages.From(w.model, 4, 5) {
		b = append(b, `,"ttl":"1h"`...)
	}
	return append(b, "}}"...)
}

func (w *writer) block(b []byte, p *llm.Part) []byte {
	b = append(jsonx.Comma(b), '{')
	switch p.Kind {
	case llm.PartText, llm.PartRefusal:
		b = jsonx.Add(b, "text", p.Text)
	case llm.PartImage:
		b = appendMedia(append(b, `"image":{`...), format(p.Media), p.Data)
	case llm.PartAudio:
		b = appendMedia(append(b, `"audio":{`...), format(p.Media), p.Data)
	case llm.PartDocument:
		b = jsonx.AddString(append(b, `"document":{`...), "name", w.unique(documentName(p)))
		b = appendMedia(b, format(p.Media), p.Data)
	case llm.PartThinking:
		b = append(b, `"reasoningContent":{`...)
		if llm.Filled(p.Redacted) {
			b = append(jsonx.Add(b, "redactedContent", p.Redacted), '}')
			break
		}
		b = jsonx.Add(append(b, `"reasoningText":{`...), "text", llm.OrEmpty(p.Text))
		b = append(jsonx.Add(b, "signature", p.Signature), "}}"...)
	case llm.PartCall:
		b = jsonx.Add(append(b, `"toolUse":{`...), "toolUseId", llm.NarrowCallID(p.ID))
		b = jsonx.Add(b, "name", p.Name)
		b = append(jsonx.Add(b, "input", p.Input), '}')
	case llm.PartResult:
		b = w.result(b, p)
	}
	return append(b, '}')
}

func (w *writer) result(b []byte, p *llm.Part) []byte {
	b = jsonx.Add(append(b, `"toolResult":{`...), "toolUseId", llm.NarrowCallID(p.ID))
	b = append(jsonx.AddKey(b, "content"), '[')
	empty := len(b)
	for i := range p.Parts {
		if q := &p.Parts[i]; w.says(q) {
			b = w.block(b, q)
		}
	}
	if len(b) == empty {
		b = append(b, `{"text":""}`...) // here it may be blank, but not nothing
	}
	b = append(b, ']')
	if p.Failed {
		if w.family.tellsFailure() {
			b = jsonx.AddString(b, "status", "error")
		} else {
			w.strip("is_error")
		}
	}
	return append(b, '}')
}

func appendMedia(b []byte, format string, data llm.Raw) []byte {
	b = jsonx.AddString(b, "format", format)
	return append(jsonx.Add(append(b, `,"source":{`...), "bytes", data), "}}"...)
}

var formats = map[string]string{
	"application/pdf": "pdf", "text/csv": "csv", "text/html": "html", "text/plain": "txt", "text/markdown": "md",
	"application/msword": "doc", "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
	"application/vnd.ms-excel": "xls", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
	"image/jpg": "jpeg",
}

// format is Converse's word for a MIME type; one that it does not know is its own to refuse.
func format(media string) string {
	media = strings.ToLower(media)
	if word := formats[media]; word != "" {
		return word
	}
	kind, word, ok := strings.Cut(media, "/")
	if kind == "text" || !ok {
		return "txt"
	}
	return word
}

// documentName is a document's name in the characters that names may have, without its extension.
func documentName(p *llm.Part) string {
	name := jsonx.RawText(p.Name)
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		name = name[:i]
	}
	var out strings.Builder
	gap := true
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '(', c == ')', c == '[', c == ']':
			out.WriteRune(c)
			gap = false
		case !gap:
			out.WriteByte('-')
			gap = true
		}
		if out.Len() == maxName {
			break
		}
	}
	if name = strings.Trim(out.String(), "-"); name == "" {
		return "document"
	}
	return name
}

const maxName = 180 // of 200

// unique makes a name different from those before: Converse refuses two of one name.
func (w *writer) unique(name string) string {
	if w.names == nil {
		w.names = map[string]int{}
	}
	w.names[name]++
	if n := w.names[name]; n > 1 {
		return w.unique(name + " (" + strconv.Itoa(n) + ")")
	}
	return name
}
