package sim

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Header values that never change are shared by all answers; net/http only reads them.
var (
	typeJSON   = []string{"application/json"}
	typeHTML   = []string{"text/html; charset=utf-8"}
	typeStream = []string{"text/event-stream"}
)

// writeJSON and writeError report whether the caller was still there, which the ledger wants to know;
// where nothing is recorded the error is of no use.
func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h["Content-Type"] = typeJSON
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

func writeError(w http.ResponseWriter, status int, kind, code, message string) error {
	return writeJSON(w, status, errorBody(kind, code, message))
}

// errorBody is OpenAI's error envelope.
func errorBody(kind, code, message string) []byte {
	b := appendQuoted([]byte(`{"error":{"message":`), message)
	b = append(b, `,"type":"`...)
	b = append(b, kind...)
	b = append(b, `","param":null,"code":`...)
	if code == "" {
		b = append(b, "null"...)
	} else {
		b = appendQuoted(b, code)
	}
	return append(b, "}}"...)
}

// appendQuoted appends s as a JSON string.
func appendQuoted(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(s) // a string: cannot fail
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// traceparent returns the trace and parent id of a W3C header, empty ones if it is none.
func traceparent(header string) (trace, span string) {
	parts := strings.Split(header, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || !isHex(parts[1], 32) || !isHex(parts[2], 16) {
		return "", ""
	}
	return parts[1], parts[2]
}

func isHex(s string, size int) bool {
	return len(s) == size && strings.Trim(s, "0123456789abcdef") == ""
}

func bearer(h http.Header) string {
	key, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return key
}

func mask(key string) string {
	if len(key) < 8 {
		return strings.Repeat("*", len(key))
	}
	return "..." + key[len(key)-4:]
}
