package httpapi

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/labstack/echo/v4"

	"turnout/gateway/llm"
)

// readBody reads the whole body, inflated, before anything goes upstream: a proxy that calls while it
// still reads loses the ends of streams. The bytes are not shared with anything.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *llm.APIError) {
	if t := r.Header.Get("Content-Type"); t != "application/json" {
		if media, _, err := mime.ParseMediaType(t); err != nil || media != "application/json" {
			return nil, invalid(http.StatusUnsupportedMediaType, "unsupported_media_type",
				fmt.Sprintf("Content-Type is %q; send the body as application/json", cut(t, 64)))
		}
	}
	encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding")))
	if encoding != "" && encoding != "identity" && encoding != "gzip" && encoding != "zstd" {
		return nil, invalid(http.StatusUnsupportedMediaType, "unsupported_media_type",
			fmt.Sprintf("Content-Encoding is %q; send gzip, zstd or nothing", cut(encoding, 64)))
	}
	if r.ContentLength > a.cfg.MaxBodyBytes {
		return nil, a.tooLarge()
	}
	if len(r.TransferEncoding) > 0 && namedLength(r) {
		w.Header().Set("Connection", "close")
	}
	raw, err := a.readAll(w, r)
	if err != nil {
		return nil, a.readError(err)
	}
	switch encoding {
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, badEncoding("gzip", err)
		}
		return a.inflate("gzip", z)
	case "zstd":
		z, err := zstd.NewReader(bytes.NewReader(raw), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(max(a.cfg.MaxBodyBytes, 1<<20))))
		if err != nil {
			return nil, badEncoding("zstd", err)
		}
		defer z.Close()
		return a.inflate("zstd", z)
	}
	return raw, nil
}

// What is still read of a body that was refused: clients that are cut off while they send see a reset
// connection instead of the answer.
const (
	drainBytes = 8 // times max_body_bytes
	drainIdle  = time.Second
	drainTotal = 10 * time.Second
)

// leftAlone is what net/http reads by itself of a body that nobody read, and keeps the connection.
const leftAlone = 256 << 10

// turnAway answers a request whose body is not wanted. A client that may be sending still is let finish.
func (a *API) turnAway(c echo.Context, failed *llm.APIError) error {
	if n := c.Request().ContentLength; n >= 0 && n <= leftAlone {
		return failed
	}
	a.refuseBody(c, failed)
	return nil
}

// refuseBody answers a request whose body cannot be taken, before the rest of it is there, and ends the
// connection: what is left of the body would be read as the next request.
func (a *API) refuseBody(c echo.Context, failed *llm.APIError) {
	w := c.Response()
	w.Header().Set("Connection", "close")
	rc := http.NewResponseController(w.Writer)
	_ = rc.EnableFullDuplex() // it can be, on HTTP/1.1
	_ = rc.SetWriteDeadline(time.Now().Add(a.cfg.Limits.Client))
	refuse(c, failed)
	switch failed.Status {
	case http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable:
	default:
		return
	}
	_ = rc.Flush()
	end := time.Now().Add(drainTotal)
	rest := io.LimitReader(c.Request().Body, drainBytes*a.cfg.MaxBodyBytes)
	for scratch := make([]byte, 32<<10); ; {
		idle := time.Now().Add(drainIdle)
		if idle.After(end) || rc.SetReadDeadline(idle) != nil {
			return
		}
		if _, err := rest.Read(scratch); err != nil {
			return
		}
	}
}

var errTooLarge = errors.New("body too large")

func (a *API) readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	rc := http.NewResponseController(w)
	size := r.ContentLength
	if size < 0 {
		size = 4 << 10
	}
	// Room for what was promised, but no more than has come: a promise costs nothing.
	buf := make([]byte, 0, min(size+1, 256<<10))
	for {
		if err := rc.SetReadDeadline(time.Now().Add(a.cfg.Limits.Body)); err != nil {
			return nil, err
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > a.cfg.MaxBodyBytes {
			return nil, errTooLarge
		}
		if err == io.EOF {
			// net/http goes on reading to learn that the client has left; that must not run out.
			return buf, rc.SetReadDeadline(time.Time{})
		}
		if err != nil {
			return nil, err
		}
	}
}

func (a *API) inflate(encoding string, z io.Reader) ([]byte, *llm.APIError) {
	var out bytes.Buffer
	n, err := io.Copy(&out, io.LimitReader(z, a.cfg.MaxBodyBytes+1))
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return nil, a.tooLarge()
	}
	if err != nil {
		return nil, badEncoding(encoding, err)
	}
	if n > a.cfg.MaxBodyBytes {
		return nil, a.tooLarge()
	}
	return out.Bytes(), nil
}

func (a *API) readError(err error) *llm.APIError {
	switch {
	case errors.Is(err, errTooLarge):
		return a.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &llm.APIError{Status: http.StatusRequestTimeout, Type: "timeout_error", Code: "timeout",
			Message: fmt.Sprintf("no byte of the request's body came for %s; send it again, or look at the network in between", a.cfg.Limits.Body)}
	}
	return invalid(http.StatusBadRequest, "invalid_json", "the request's body ended before it was complete; send it again")
}

func (a *API) tooLarge() *llm.APIError {
	return invalid(http.StatusRequestEntityTooLarge, "body_too_large",
		fmt.Sprintf("the request's body is larger than %d bytes; send less, or smaller images", a.cfg.MaxBodyBytes))
}

func badEncoding(encoding string, err error) *llm.APIError {
	return invalid(http.StatusBadRequest, "invalid_json", fmt.Sprintf("the request's body is no valid %s: %v", encoding, err))
}

func invalid(status int, code, message string) *llm.APIError {
	return &llm.APIError{Status: status, Type: "invalid_request_error", Code: code, Message: message}
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}
