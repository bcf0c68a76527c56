package sim_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"turnout/deploy/sim"
)

func TestControlOverHTTP(t *testing.T) {
	s, base := start(t, sim.Options{Providers: one(nil)})
	c := sim.Client{URL: base}
	initial, _ := s.Behavior("p")
	if err := c.Set(t.Context(), "p", map[string]any{"error_rate": .8, "ttft_ms": map[string]any{"uniform": []int{1, 2}}, "cache": map[string]any{"ttl_seconds": 9}}); err != nil {
		t.Fatal(err)
	}
	want := initial
	want.ErrorRate, want.TTFT, want.Cache.TTLSeconds = .8, sim.Uniform(1, 2), 9
	if got, _ := s.Behavior("p"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []struct{ change, want string }{
		{`{"error_rte":1}`, `unknown field \"error_rte\"`},
		{`{"error_rate":1.5}`, "error_rate: 1.5 is not a probability"},
		{`{"error_kinds":["boom"]}`, `error_kinds: \"boom\" is unknown`},
		{`{"ttft_ms":{"normal":[1,2]}}`, "is no distribution"},
		{`{"ttft_ms":{"uniform":[3,2]}}`, "the smaller one stands first"},
		{`{"ttft_ms":{"lognormal":{"p50":0,"p99":2}}}`, "must be above 0"},
		{`{"chunk_tokens":0}`, "chunk_tokens: 0"},
		{`{"cache":{"block_tokens":0}}`, "cache.block_tokens"},
		{`{} {}`, "text after the object"},
		{`[]`, "reading behaviour"},
	} {
		err := c.Set(t.Context(), "p", json.RawMessage(bad.change))
		if bad.change == `{} {}` { // no JSON value: it must go out as it is
			req, _ := http.NewRequest(http.MethodPut, base+"/control/p", strings.NewReader(bad.change))
			resp, _ := http.DefaultClient.Do(req)
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 400 || !strings.Contains(string(text), bad.want) {
				t.Errorf("%s: %d %s", bad.change, resp.StatusCode, text)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v", bad.change, err)
		}
	}
	if got, _ := s.Behavior("p"); !reflect.DeepEqual(got, want) {
		t.Errorf("a refused change changed something: %+v", got)
	}
	if err := c.Set(t.Context(), "nobody", map[string]any{}); err == nil || !strings.Contains(err.Error(), "there are p") {
		t.Error(err)
	}
	if err := c.Set(t.Context(), "p", nil); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Behavior("p"); !reflect.DeepEqual(got, initial) {
		t.Errorf("after the reset %+v", got)
	}
	resp, err := http.Get(base + "/control")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var all struct {
		Providers map[string]struct {
			Behavior sim.Behavior `json:"behavior"`
		} `json:"providers"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil || !reflect.DeepEqual(all.Providers["p"].Behavior, initial) {
		t.Errorf("%v %+v", err, all)
	}
}

func TestLedgerIsBoundedAndClears(t *testing.T) {
	s, base := start(t, sim.Options{Providers: one(nil), LedgerEntries: 3})
	c := sim.Client{URL: base}
	for range 5 {
		post(t, base, chatPath, plainBody)
	}
	e, err := c.Ledger(t.Context(), 0)
	if err != nil || len(e) != 3 || e[0].Seq != 3 || e[2].Seq != 5 || e[2].Call != 5 || e[2].Outcome != sim.Completed {
		t.Errorf("%v %+v", err, e)
	}
	if e, _ := c.Ledger(t.Context(), 4); len(e) != 1 || e[0].Seq != 5 {
		t.Errorf("since 4: %+v", e)
	}
	resp, err := http.Get(base + "/ledger")
	if err != nil || resp.Header.Get("X-Ledger-Dropped") != "2" {
		t.Errorf("%v %v", err, resp.Header)
	}
	resp.Body.Close()
	req, _ := http.NewRequest(http.MethodDelete, base+"/ledger", nil)
	if resp, err = http.DefaultClient.Do(req); err != nil || resp.StatusCode != 204 {
		t.Errorf("%v %v", err, resp)
	}
	resp.Body.Close()
	post(t, base, chatPath, plainBody)
	if e := s.Ledger(0); len(e) != 1 || e[0].Seq != 6 {
		t.Errorf("after clearing %+v", e)
	}
}

func TestLedgerSurvivesRestartAndKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	first, base := start(t, sim.Options{Providers: one(nil), Ledger: path})
	post(t, base, chatPath, plainBody)
	post(t, base, chatPath, streamBody)
	want := first.Ledger(0)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	file.WriteString(`{"seq":3,"provider":"p","call":3,"outcome":"open"}` + "\n" + `{"seq":4,"prov`) // a kill during call 3, while 4 arrived
	file.Close()

	second, base := start(t, sim.Options{Providers: one(nil), Ledger: path})
	post(t, base, chatPath, plainBody)
	e := second.Ledger(0)
	if len(e) != 4 || e[0].FinishedAt != want[0].FinishedAt || e[1].Chunks != 5 || e[2].Outcome != sim.Open || e[3].Seq != 4 || e[3].Call != 4 || e[3].Outcome != sim.Completed {
		t.Errorf("got %+v", e)
	}
	data, _ := os.ReadFile(path)
	if again, err := sim.ReadLedger(bytes.NewReader(data)); err != nil || len(again) != 4 {
		t.Errorf("%v %+v", err, again)
	}
}

func TestDistributions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.Float64Range(.001, 1e6).Draw(t, "lo")
		hi := lo * rapid.Float64Range(1, 100).Draw(t, "ratio")
		u, v := rapid.Float64Range(0, .999999).Draw(t, "u"), rapid.Float64Range(0, .999999).Draw(t, "v")
		for _, d := range []sim.Dist{sim.Fixed(lo), sim.Uniform(lo, hi), sim.Lognormal(lo, hi)} {
			if (u < v) && d.At(u) > d.At(v) {
				t.Fatalf("%+v is no quantile function at %v, %v", d, u, v)
			}
			data, err := json.Marshal(d)
			var back sim.Dist
			if err == nil {
				err = json.Unmarshal(data, &back)
			}
			if err != nil || back.At(u) != d.At(u) {
				t.Fatalf("%s: %v, %+v", data, err, back)
			}
		}
		if d := sim.Lognormal(lo, hi); math.Abs(d.At(.5)/lo-1) > 1e-6 || math.Abs(d.At(.99)/hi-1) > 1e-6 {
			t.Fatalf("lognormal %v %v", d.At(.5), d.At(.99))
		}
	})
}

func FuzzReadLedger(f *testing.F) {
	f.Add([]byte(`{"seq":2,"provider":"p"}` + "\n" + `{"seq":1}` + "\n" + `{"seq":2,"outcome":"cut"}` + "\n"))
	f.Add([]byte("\n\n{\"seq\":1}\n{\"se"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := sim.ReadLedger(bytes.NewReader(data))
		if err != nil {
			return
		}
		var out bytes.Buffer
		for i, e := range entries {
			if e.Seq < 1 || i > 0 && e.Seq <= entries[i-1].Seq {
				t.Fatalf("out of order: %+v", entries)
			}
			if e.ReceivedAt.Year() > 9999 || e.FinishedAt.Year() > 9999 {
				return
			}
			e.ReceivedAt, e.FinishedAt = time.Time{}, time.Time{}
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(append(line, '\n'))
		}
		again, err := sim.ReadLedger(&out)
		if err != nil || len(again) != len(entries) {
			t.Fatalf("%v: %+v, then %+v", err, entries, again)
		}
	})
}
