package llm

import (
	"bytes"
	"encoding/base64"
	"strings"

	"turnout/internal/jsonx"
)

// SetSource takes a raw string that is an address or a data: address in.
func (p *Part) SetSource(raw Raw) {
	rest, inline := bytes.CutPrefix(raw, []byte(`"data:`))
	if !inline {
		if len(raw) > len(`""`) {
			p.URL = raw
		}
		return
	}
	head, data, ok := bytes.Cut(rest, []byte(","))
	media, encoded := strings.CutSuffix(string(head), ";base64")
	if !ok || strings.ContainsAny(media, `"\`) {
		return
	}
	if p.Media, _, _ = strings.Cut(media, ";"); p.Media == "image/jpg" {
		p.Media = "image/jpeg" // its name, without which some refuse it
	}
	if encoded {
		p.Data = append(append(make(Raw, 0, len(data)+1), '"'), data...)
		return
	}
	text := jsonx.RawText(append([]byte{'"'}, data...))
	p.Data = jsonx.AppendString(nil, base64.StdEncoding.EncodeToString([]byte(text)))
}

// AppendDataURL appends the part's data as a raw string with a data: address.
func (p *Part) AppendDataURL(dst []byte) []byte {
	dst = append(dst, `"data:`...)
	for i := range len(p.Media) { // it may be the client's, and stands between quotes
		if c := p.Media[i]; base64Bytes[c] || c == '.' || c == '-' || c == '_' {
			dst = append(dst, c)
		}
	}
	dst = append(dst, `;base64,`...)
	return append(dst, p.Data[1:]...)
}

// SafeBase64 says whether a raw string is base64, with or without padding. A slash may be escaped, as
// some writers of JSON do.
func SafeBase64(raw []byte) bool {
	if len(raw) < 2 {
		return false
	}
	body := bytes.TrimRight(raw[1:len(raw)-1], "=")
	n := len(body)
	for i, c := range body {
		if base64Bytes[c] {
			continue
		}
		if c != '\\' || i+1 == len(body) || body[i+1] != '/' {
			return false
		}
		n--
	}
	return n > 0 && n%4 != 1
}

var base64Bytes = func() (t [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" {
		t[c] = true
	}
	return t
}()
