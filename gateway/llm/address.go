package llm

import (
	"bytes"
	"net/url"
	"strings"

	"turnout/internal/jsonx"
	"turnout/schemas/resource"
)

// linked reads where an image or document is, as a string or as the url of an object.
func (p *parser) linked(capability string) {
	c := &p.cursor
	if c.Kind() == jsonx.Object {
		c.EachField(func(key []byte) {
			if string(key) == "url" {
				p.linked(capability)
			}
		})
		return
	}
	at := c.Pos()
	p.address(at, c.RawString(), capability)
}

// address checks the raw string at offset at: data must be base64, and an address must not lead into the
// network of whoever fetches it. What is not data is noted.
func (p *parser) address(at int, raw []byte, capability string) {
	if len(raw) <= len(`""`) {
		return
	}
	if rest, inline := bytes.CutPrefix(raw, []byte(`"data:`)); inline {
		comma := bytes.IndexByte(rest, ',')
		switch {
		case comma < 0:
			p.refuse(at, "is a data: address without data; write data:image/png;base64, and the data")
		case bytes.HasSuffix(rest[:comma], []byte(";base64")) && !SafeBase64(rest[comma:]):
			p.refuse(at, "holds data that is no base64")
		}
		return
	}
	note(&p.facts.Linked, capability)
	if !bytes.Contains(raw[:min(len(raw), 16)], []byte(":")) {
		return // without a scheme it leads nowhere: what it is, the upstream knows
	}
	u, err := url.Parse(jsonx.RawText(raw))
	if err != nil {
		p.refuse(at, "is no address; use https:// or data:")
		return
	}
	switch strings.ToLower(u.Scheme) {
	case "file":
		p.refuse(at, "is the address of a file; send the file as data")
	case "http", "https":
		host := u.Hostname()
		switch {
		case host == "":
			p.refuse(at, "is an address without a host")
		case resource.CheckHost(host, true) != nil:
			p.refuse(at, "is a link-local or metadata address, which no provider may fetch")
		case resource.CheckHost(host, false) != nil:
			note(&p.facts.Inward, capability)
		}
	}
}
