package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

func (s *Server) serveControl(w http.ResponseWriter, r *http.Request, id string) {
	if id == "" && r.Method == http.MethodGet {
		type shown struct {
			Calls        int64    `json:"calls"`
			CachedBlocks int      `json:"cached_blocks"`
			Behavior     Behavior `json:"behavior"`
		}
		held, dropped, last := s.ledger.stats()
		all := map[string]shown{}
		for id, p := range s.providers {
			now := p.current.Load()
			all[id] = shown{p.calls.Load(), now.cache.size(), now.Behavior}
		}
		body, err := json.MarshalIndent(map[string]any{
			"providers": all,
			"ledger":    map[string]int64{"entries": held, "dropped": dropped, "last_seq": last},
		}, "", "  ")
		if err != nil {
			_ = writeError(w, 500, "server_error", "", err.Error())
			return
		}
		_ = writeJSON(w, 200, append(body, '\n'))
		return
	}
	var change []byte
	switch r.Method {
	case http.MethodGet:
	case http.MethodDelete:
	case http.MethodPut:
		var err error
		if change, err = io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20)); err != nil {
			_ = writeError(w, 400, "invalid_request_error", "", err.Error())
			return
		}
		if len(change) == 0 {
			change = []byte("{}")
		}
	default:
		w.Header().Set("Allow", "GET, PUT, DELETE")
		_ = writeError(w, 405, "invalid_request_error", "method_not_allowed", "use GET, PUT or DELETE")
		return
	}
	if r.Method != http.MethodGet {
		if err := s.Set(id, change); err != nil {
			_ = writeError(w, 400, "invalid_request_error", "invalid_value", err.Error())
			return
		}
	}
	b, ok := s.Behavior(id)
	if !ok {
		_ = writeError(w, 404, "invalid_request_error", "not_found", fmt.Sprintf("unknown provider %q: there are %s", id, strings.Join(s.order, ", ")))
		return
	}
	body, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		_ = writeError(w, 500, "server_error", "", err.Error())
		return
	}
	_ = writeJSON(w, 200, append(body, '\n'))
}

func (s *Server) serveLedger(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodDelete:
		if err := s.ledger.clear(); err != nil {
			_ = writeError(w, 500, "server_error", "", err.Error())
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case http.MethodGet:
		var since int64
		if text := r.URL.Query().Get("since"); text != "" {
			var err error
			if since, err = strconv.ParseInt(text, 10, 64); err != nil || since < 0 {
				_ = writeError(w, 400, "invalid_request_error", "invalid_value", fmt.Sprintf("since: %q is no sequence number", text))
				return
			}
		}
		entries, dropped := s.ledger.since(since)
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("X-Ledger-Dropped", strconv.FormatInt(dropped, 10))
		encoder := json.NewEncoder(w)
		for i := range entries {
			if encoder.Encode(&entries[i]) != nil {
				return // the reader has left
			}
		}
	default:
		w.Header().Set("Allow", "GET, DELETE")
		_ = writeError(w, 405, "invalid_request_error", "method_not_allowed", "use GET or DELETE")
	}
}
