package llm

import "turnout/internal/jsonx"

// ParseEmbeddings reads a request for embeddings: what the gateway reads or changes is checked, the
// rest is the upstream's to judge.
func ParseEmbeddings(body []byte) (*Facts, *APIError) {
	return parse(body, (*parser).embeddingField, "input", "is missing; send a text, a list of texts, or token ids")
}

func (p *parser) embeddingField(key []byte) {
	switch string(key) {
	case "input":
		p.sawInput = true
		p.embeddingInput()
	case "dimensions":
		p.integer(maxTokens)
	case "encoding_format":
		at := p.cursor.Pos()
		switch word := p.text(); word {
		case "", "float", "base64":
			p.facts.Base64 = word == "base64"
		default:
			p.wrong(at, "must be float or base64")
		}
	case "stream": // there is none
	default:
		p.shared(key)
	}
}

// embeddingInput reads a text, a list of texts, one list of token ids, or a list of such lists.
func (p *parser) embeddingInput() {
	c := &p.cursor
	at := c.Pos()
	switch c.Kind() {
	case jsonx.String:
		if t := c.Text(); t.Empty() {
			p.wrong(at, "must hold text")
		} else {
			p.facts.TextChars += int64(t.Chars())
		}
		return
	case jsonx.Array:
	default:
		p.wrong(at, "must be a text, a list of texts, or token ids")
		return
	}
	items, first := c.Array(), jsonx.Invalid
	for c.NextItem(&items) {
		kind, at := c.Kind(), c.Pos()
		if first == jsonx.Invalid {
			first = kind
		}
		switch {
		case kind != first:
			p.wrong(at, "must be of the same kind as the elements before it")
		case kind == jsonx.String:
			p.facts.TextChars += int64(c.Text().Chars())
		case kind == jsonx.Number:
			p.token()
		case kind == jsonx.Array:
			p.tokenList(at)
		default:
			p.wrong(at, "must be a text, a token id, or a list of token ids")
		}
	}
	if c.Err() == nil && items.Index < 0 {
		p.wrong(at, "must hold at least one text")
	}
}

func (p *parser) tokenList(at int) {
	c := &p.cursor
	items := c.Array()
	for c.NextItem(&items) {
		p.token()
	}
	if c.Err() == nil && items.Index < 0 {
		p.wrong(at, "must hold at least one token id")
	}
}

func (p *parser) token() {
	at := p.cursor.Pos()
	if n, ok := jsonx.Int64(p.cursor.Raw()); !ok || n < 0 {
		p.wrong(at, "must be a token id")
		return
	}
	p.facts.Tokens++
}
