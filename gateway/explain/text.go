package explain

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"turnout/schemas/attempt"
)

// Write tells the report to a person.
func (r *Report) Write(w io.Writer) error {
	p := &page{}
	p.request(r)
	p.refusal(r)
	p.decision(r)
	p.attempts(r)
	p.cost(r)
	p.again(r)
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("writing the explanation: %w", err)
	}
	return nil
}

type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// fields writes a line of what is not empty.
func (p *page) fields(label string, parts ...string) {
	var kept []string
	for _, part := range parts {
		if part != "" {
			kept = append(kept, part)
		}
	}
	if len(kept) > 0 {
		p.line("  %-10s %s", label, strings.Join(kept, ", "))
	}
}

// table writes rows in columns.
func (p *page) table(write func(row func(cells ...string))) {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	write(func(cells ...string) { fmt.Fprintf(t, "  %s\t\n", strings.Join(cells, "\t")) })
	_ = t.Flush() // into memory
	for line := range strings.Lines(b.String()) {
		p.line("%s", strings.TrimRight(line, " \n"))
	}
}

func when(on bool, text string) string {
	if on {
		return text
	}
	return ""
}

func (p *page) request(r *Report) {
	q := &r.Request
	p.line("Request %s: %s", r.RequestID, resultWords(r))
	p.fields("when", q.At.UTC().Format("2006-01-02 15:04:05.000 UTC"), "node "+q.NodeID)
	p.fields("who", when(q.ProjectID != "", "project "+q.ProjectID), when(q.OrganizationID != "", "organization "+q.OrganizationID),
		when(q.APIKeyID != "", "key "+q.APIKeyID), when(q.Client != "", "client "+q.Client), when(q.CodingClient != "", "coding client "+q.CodingClient))
	p.fields("what", q.Endpoint, "model "+q.RequestedModel, when(q.RequestedProvider != "", "provider "+q.RequestedProvider+when(has(q.Traits, attempt.TraitStrict), " and no other")),
		when(q.Stream, "as a stream"), fmt.Sprintf("about %d tokens of prompt", q.PromptTokensEstimate), when(q.MaxTokens > 0, fmt.Sprintf("at most %d of answer", q.MaxTokens)))
	p.fields("needs", needs(q.Traits), when(q.ServiceTier != "", "service tier "+q.ServiceTier))
	p.fields("how", when(q.Strategy != "", "strategy "+q.Strategy), when(q.SessionHash != "", "session "+short(q.SessionHash)), when(q.NoFallback, "no fallback"))
}

func resultWords(r *Report) string {
	if r.Result == "refused" {
		return "refused"
	}
	last := &r.Attempts[len(r.Attempts)-1]
	words := outcomes[attempt.Outcome(r.Result)]
	if r.Result == string(attempt.Completed) {
		words = "served by " + name(&last.Place)
	}
	n := "1 attempt"
	if len(r.Attempts) > 1 {
		n = fmt.Sprintf("%d attempts", len(r.Attempts))
	}
	if r.Unfinished {
		n += " so far; it went on, and no later attempt is stored (yet)"
	}
	return fmt.Sprintf("%s (%s, %s)", r.Result, words, n)
}

func short(hash string) string {
	if len(hash) > 12 {
		return hash[:12]
	}
	return hash
}

func (p *page) refusal(r *Report) {
	if r.Refusal == nil {
		return
	}
	p.line("\nRefused with %d %s: %s", r.Refusal.StatusCode, r.Refusal.ErrorCode, r.Refusal.Why)
	if r.Refusal.ErrorMessage != "" {
		p.line("  the client was told: %s", r.Refusal.ErrorMessage)
	}
}

func (p *page) decision(r *Report) {
	d := r.Decision
	if d == nil {
		return
	}
	if d.Selected != nil {
		p.line("\nChosen: %s, %s", name(d.Selected), d.Reason)
		p.line("  because    %s", d.Why)
		p.fields("chance", fmt.Sprintf("%s %%", number(100*d.Propensity)), when(d.Draw != nil, "draw "+optional(d.Draw)))
	} else {
		p.line("\nChosen: nobody")
		p.line("  because    %s", d.Why)
	}
	p.fields("known by", when(d.SnapshotID != "", "snapshot "+d.SnapshotID), "configuration "+d.ConfigVersion, "prices "+d.PriceVersion)
	if d.HitRate != nil && d.OutputRatio != nil {
		p.fields("prices", fmt.Sprintf("blended for %s %% of the input read from a cache and %s tokens of output for each of input", number(100**d.HitRate), number(*d.OutputRatio)))
	}
	if len(d.StrippedParameters) > 0 {
		p.fields("left out", strings.Join(d.StrippedParameters, ", ")+", which "+name(d.Selected)+" does not take")
	}
	if shown := len(d.Candidates) + len(d.Excluded); d.ConsideredTotal > shown {
		p.fields("shown", fmt.Sprintf("%d of %d candidates: the best, and those that set a measure", shown, d.ConsideredTotal))
	}
	p.candidates(d)
	p.excluded(d)
}

func (p *page) candidates(d *Decision) {
	if len(d.Candidates) == 0 {
		return
	}
	p.line("\nCandidates (the lowest score wins; parts sum to it)")
	p.table(func(row func(...string)) {
		row("", "", "score", "= price", "+ uptime", "+ speed", "+ latency", "+ cache", "+ priority", "+ penalty", "", "USD/1M", "uptime %", "tok/s", "ms")
		for i := range d.Candidates {
			c := &d.Candidates[i]
			cells := []string{when(c.Chosen, ">"), name(&c.Place), score(c.Score)}
			if x := c.Contributions; x != nil {
				for _, part := range []float64{x.Price, x.Uptime, x.Throughput, x.Latency, x.Cache, x.Priority, x.UptimePenalty} {
					cells = append(cells, score(part))
				}
			} else {
				cells = append(cells, "", "", "", "", "", "", "")
			}
			note := when(c.LostToRegion != "", "lost to "+c.LostToRegion)
			if d.BoundTo != "" && c.Provider != d.BoundTo {
				note = "cannot read the reasoning"
			}
			if c.LastResort {
				note = "last resort: cooling down"
			}
			row(append(cells, "", number(c.Price), optional(c.Uptime), optional(c.Throughput), optional(c.Latency), note)...)
		}
	})
}

func (p *page) excluded(d *Decision) {
	if len(d.Excluded) == 0 {
		return
	}
	p.line("\nLeft out")
	models := slices.ContainsFunc(d.Excluded, func(x Exclusion) bool { return x.Model != d.Excluded[0].Model })
	p.table(func(row func(...string)) {
		for i := range d.Excluded {
			x := &d.Excluded[i]
			if models {
				row(name(&x.Place), x.Model, x.Code, x.Why)
				continue
			}
			row(name(&x.Place), x.Code, x.Why)
		}
	})
}

func (p *page) attempts(r *Report) {
	if len(r.Attempts) == 0 {
		return
	}
	p.line("\nAttempts")
	p.table(func(row func(...string)) {
		row("", "provider", "model", "outcome", "status", "first token", "took", "tokens in", "cached", "out", "cost", "")
		for i := range r.Attempts {
			a := &r.Attempts[i]
			ttft := ""
			if a.TTFTUS != nil {
				ttft = micros(*a.TTFTUS)
			}
			in, cached, out := "", "", ""
			if a.Usage.Source != "" && a.Usage.Source != string(attempt.UsageMissing) {
				in, cached, out = strconv.FormatInt(a.Usage.InputTokens, 10), strconv.FormatInt(a.Usage.CachedInputTokens, 10), strconv.FormatInt(a.Usage.OutputTokens, 10)
			}
			outcome := a.Outcome
			if a.ErrorType != "" && a.ErrorType != "none" && a.ErrorType != a.Outcome {
				outcome += " (" + a.ErrorType + ")"
			}
			how := a.How
			if i == 0 && how == "first choice" {
				how = ""
			}
			var notes []string
			for _, note := range []string{how, when(a.Probe, "a probe"), when(a.CredentialSource == attempt.BYOK, "the tenant's key "+a.ProviderKeyLabel), when(a.Usage.Source == string(attempt.UsageEstimated), "tokens are estimated")} {
				if note != "" {
					notes = append(notes, note)
				}
			}
			row(strconv.Itoa(a.AttemptNo), name(&a.Place), a.Model, outcome, strconv.Itoa(a.StatusCode), ttft, micros(a.DurationUS), in, cached, out, usd(a.CostNanoUSD), strings.Join(notes, ", "))
		}
	})
}

func (p *page) cost(r *Report) {
	c := r.Cost
	if c == nil {
		return
	}
	p.line("\nCost: %s", usd(c.NanoUSD))
	switch c.BaselineKind {
	case "":
	case "model":
		p.fields("baseline", usd(c.BaselineNanoUSD)+" for the same tokens by "+c.BaselineModel+" at "+c.BaselineProvider+", the dearest model there was", "saved "+usd(c.SavedNanoUSD))
	default:
		p.fields("baseline", usd(c.BaselineNanoUSD)+" for the same tokens at "+c.BaselineProvider+", the dearest candidate", "saved "+usd(c.SavedNanoUSD))
	}
}

func (p *page) again(r *Report) {
	a := &r.Again
	switch a.Verdict {
	case Same:
		words := "the same choice, reason and scores"
		if a.Selected == nil {
			words = "nobody again, for the same reason"
		}
		if a.Costs > 0 {
			words += "; the cost comes out the same too"
		}
		p.line("\nDecided again from what was recorded: %s", words)
	case NotPossible:
		p.line("\nDecided again: not possible: %s", a.Why)
	case NoDecision:
		p.line("\nDecided again: there is nothing to decide: %s", a.Why)
	default:
		p.line("\nDecided again from what was recorded: DIFFERENT%s", when(a.Why != "", " ("+a.Why+")"))
	}
	for _, d := range a.Differences {
		p.line("  %s", d)
	}
}

func score(v float64) string {
	if math.Abs(v) >= 1e6 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return strconv.FormatFloat(v, 'f', 4, 64)
}

// number shows at most six significant digits.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'g', 6, 64)
	if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return text
}

// optional shows what is not known as such.
func optional(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return number(*v)
}

func micros(us int64) string {
	d := time.Duration(us) * time.Microsecond
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

func usd(nano int64) string {
	sign := ""
	if nano < 0 {
		sign, nano = "-", -nano
	}
	text := fmt.Sprintf("%d.%09d", nano/1e9, nano%1e9)
	text = strings.TrimRight(text, "0")
	return sign + "$" + strings.TrimSuffix(text, ".")
}
