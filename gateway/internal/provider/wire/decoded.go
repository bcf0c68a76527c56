package wire

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
)

// Decoded undoes a content coding that nobody asked for.
func Decoded(resp *http.Response) (io.Reader, *llm.Error) {
	switch strings.ToLower(resp.Header.Get("Content-Encoding")) {
	case "", "identity":
		return resp.Body, nil
	case "gzip", "x-gzip":
		return &gunzip{body: resp.Body}, nil
	}
	return nil, provider.Unanswerable(resp.StatusCode, "an answer in a content coding that was not asked for")
}

// gunzip begins to inflate at the first read, which may block.
type gunzip struct {
	body io.Reader
	zip  *gzip.Reader
}

var errGzip = errors.New("bad gzip")

func (g *gunzip) Read(p []byte) (int, error) {
	if g.zip == nil {
		zip, err := gzip.NewReader(g.body)
		if errors.Is(err, io.EOF) {
			return 0, io.EOF // no byte at all: an empty body
		}
		if err != nil {
			return 0, errors.Join(errGzip, err)
		}
		g.zip = zip
	}
	return g.zip.Read(p)
}
