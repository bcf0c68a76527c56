package sim_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"turnout/deploy/sim"
)

func TestErrors(t *testing.T) {
	s, base := start(t, sim.Options{Providers: one(nil)})
	for _, c := range []struct {
		kind   string
		body   string
		status int
		want   string
	}{
		{sim.ErrorServer, plainBody, 500, `"type":"server_error"`},
		{sim.ErrorUnavailable, plainBody, 503, `"code":"overloaded"`},
		{sim.ErrorRateLimited, plainBody, 429, `"code":"rate_limit_exceeded"`},
		{sim.ErrorInvalidKey, plainBody, 401, `"code":"invalid_api_key"`},
		{sim.ErrorContextLength, plainBody, 400, `"code":"context_length_exceeded"`},
		{sim.ErrorHTML, plainBody, 502, `<html>`},
		{sim.ErrorInBand, streamBody, 200, `data: {"error":`},
		{sim.ErrorInBand, plainBody, 200, `{"error":`},
		{sim.ErrorObject, streamBody, 200, `{"error":`},
	} {
		if err := s.Set("p", fmt.Appendf(nil, `{"error_rate":1,"error_kinds":[%q],"retry_after_seconds":7}`, c.kind)); err != nil {
			t.Fatal(err)
		}
		status, header, text, err := post(t, base, chatPath, c.body)
		if err != nil || status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v %d %s", c.kind, err, status, text)
		}
		if got := header.Get("Retry-After"); (got == "7") != (status == 429 || status == 503) {
			t.Errorf("%s: Retry-After %q", c.kind, got)
		}
		if e := s.Ledger(0); e[len(e)-1].Fault != c.kind || e[len(e)-1].Status != c.status || e[len(e)-1].Outcome != sim.Completed || e[len(e)-1].OutputTokens != 0 {
			t.Errorf("%s: ledger %+v", c.kind, e[len(e)-1])
		}
	}
}

func TestCutStallSilence(t *testing.T) {
	s, base := start(t, sim.Options{Providers: one(nil)})
	set := func(change string) {
		t.Helper()
		if err := s.Set("p", []byte(change)); err != nil {
			t.Fatal(err)
		}
	}
	last := func() sim.Entry { e := s.Ledger(0); return e[len(e)-1] }
	settled := func(outcome string) sim.Entry {
		t.Helper()
		for range 500 {
			if last().Outcome == outcome {
				break
			}
			time.Sleep(2 * time.Millisecond)
		}
		if e := last(); e.Outcome != outcome {
			t.Errorf("ledger %+v", e)
		}
		return last()
	}
	for _, after := range []int{0, 3, 99} {
		set(fmt.Sprintf(`{"cut_rate":1,"cut_after_chunks":%d}`, after))
		status, _, text, err := post(t, base, chatPath, streamBody)
		if status != 200 || !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(text, "DONE") || strings.Contains(text, `"stop"`) {
			t.Errorf("cut: %d %v %s", status, err, text)
		}
		want := min(after, 5)
		if e := settled(sim.Cut); e.Chunks != want || e.OutputTokens != 2*want || e.Fault != sim.FaultCut || strings.Count(text, `{"content":`) != want {
			t.Errorf("cut after %d: ledger %+v\n%s", after, e, text)
		}
	}
	if status, _, _, err := post(t, base, chatPath, plainBody); status != 200 || err != nil {
		t.Errorf("a plain answer is not cut: %d %v", status, err)
	}

	set(`{"cut_rate":0,"stall_rate":1,"stall_after_chunks":2}`)
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, base+chatPath, strings.NewReader(streamBody))
	req.Header.Set("Authorization", "Bearer key-abcdefgh")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	for seen := 0; seen < 3 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data:") {
			seen++
		}
	}
	if e := last(); e.Outcome != sim.Open {
		t.Errorf("a stalled call is open: %+v", e)
	}
	cancel()
	resp.Body.Close()
	if e := settled(sim.Canceled); e.Chunks != 2 || e.Fault != sim.FaultStall || e.Status != 200 {
		t.Errorf("stall: %+v", e)
	}

	set(`{"stall_rate":0,"silence_rate":1}`)
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, _ = http.NewRequestWithContext(ctx, http.MethodPost, base+chatPath, strings.NewReader(plainBody))
	req.Header.Set("Authorization", "Bearer key-abcdefgh")
	if _, err := http.DefaultClient.Do(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silence: %v", err)
	}
	if e := settled(sim.Canceled); e.Status != 0 || e.Fault != sim.FaultSilence {
		t.Errorf("silence: %+v", e)
	}
}

func TestCloseEndsSilence(t *testing.T) {
	s, base := start(t, sim.Options{Providers: one(func(b *sim.Behavior) { b.SilenceRate = 1 })})
	done := make(chan error, 1)
	go func() {
		resp, err := http.Post(base+chatPath, "application/json", strings.NewReader(plainBody)) // no key: refused at once
		if err == nil {
			resp.Body.Close()
			req, _ := http.NewRequest(http.MethodPost, base+chatPath, strings.NewReader(plainBody))
			req.Header.Set("Authorization", "Bearer key-abcdefgh")
			_, err = http.DefaultClient.Do(req)
		}
		done <- err
	}()
	for len(s.Ledger(0)) < 2 {
		time.Sleep(time.Millisecond)
	}
	begin := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("a silent call was answered")
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("closing took %s", took)
	}
}

// A caller that leaves while it is still sending is in the ledger all the same.
func TestHalfARequestIsACall(t *testing.T) {
	s, base := start(t, sim.Options{Providers: one(nil)})
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", chatPath)
	conn.Close()
	for range 500 {
		if e := s.Ledger(0); len(e) == 1 && e[0].Outcome == sim.Canceled {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Errorf("ledger %+v", s.Ledger(0))
}

func TestRateLimit(t *testing.T) {
	now := time.Unix(1000, 0)
	s, base := start(t, sim.Options{Now: func() time.Time { return now }, Providers: one(func(b *sim.Behavior) { b.RPM = 3 })})
	statuses := func(n int) (got []int) {
		for range n {
			status, header, _, err := post(t, base, chatPath, plainBody)
			if err != nil || (header.Get("Retry-After") == "20") != (status == 429) {
				t.Errorf("%v %d %v", err, status, header)
			}
			got = append(got, status)
		}
		return got
	}
	if got := fmt.Sprint(statuses(4)); got != "[200 200 200 429]" {
		t.Error(got)
	}
	now = now.Add(20 * time.Second)
	if got := fmt.Sprint(statuses(2)); got != "[200 429]" {
		t.Error(got)
	}
	if e := s.Ledger(5); len(e) != 1 || e[0].Fault != "rpm" {
		t.Errorf("ledger %+v", e)
	}
}
