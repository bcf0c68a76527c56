package dispatch

import (
	"strconv"
	"time"

	"turnout/gateway/routing"
	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

// object appends the metadata of the request as it stands (routing.md 7), by hand: it is part of
// every answer.
func (r *run) object(b []byte) []byte {
	b = append(b, `{"request_id":`...)
	b = jsonx.AppendString(b, r.req.ID)
	if r.facts != nil {
		b = append(b, `,"requested_model":`...)
		b = jsonx.AppendString(b, r.facts.Model)
	}
	b = appendField(b, `,"requested_provider":`, r.resolved.Provider)
	if n := len(r.calls); n > 0 {
		l := &r.plan.legs[r.calls[n-1].leg]
		c := l.candidate
		b = append(b, `,"used_model":`...)
		used := c.Provider.ID + "/" + c.Model.ID
		if c.Region != "" {
			used += ":" + c.Region
		}
		b = jsonx.AppendString(b, used)
		b = appendField(b, `,"used_provider":`, c.Provider.ID)
		b = appendField(b, `,"used_region":`, c.Region)
		b = append(b, `,"cached":false,"cost_usd":`...)
		b = appendUSD(b, r.event.CostNanoUSD)
	}
	if age, ok := r.snapshotAge(r.d.metrics.Now()); ok {
		b = append(b, `,"snapshot_age_s":`...)
		b = strconv.AppendFloat(b, age.Round(100*time.Millisecond).Seconds(), 'f', -1, 64)
	}
	if r.plan != nil && r.first.Selected >= 0 && len(r.calls) > 0 {
		b = appendField(b, `,"reason":`, string(r.first.Reason))
	}
	b = append(b, `,"routing":[`...)
	for i := range r.calls {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.appendCall(b, &r.calls[i])
	}
	b = append(b, ']')
	switch {
	case r.plan != nil && r.first.Selected < 0:
		b = r.appendExcluded(b)
	case r.plan == nil && len(r.seen) > 0:
		b = appendDropped(b, r.seen)
	}
	if r.plan != nil && r.req.Explain {
		b = append(b, `,"considered":`...)
		b = attempt.AppendConsidered(b, r.seen)
	}
	return append(b, '}')
}

func (r *run) appendCall(b []byte, c *call) []byte {
	l := &r.plan.legs[c.leg]
	k := &l.keys[c.key]
	b = append(b, `{"provider":`...)
	b = jsonx.AppendString(b, l.candidate.Provider.ID)
	b = append(b, `,"model":`...)
	b = jsonx.AppendString(b, l.candidate.Model.ID)
	b = appendField(b, `,"region":`, l.candidate.Region)
	b = append(b, `,"status_code":`...)
	b = strconv.AppendInt(b, int64(c.status), 10)
	b = append(b, `,"error_type":"`...)
	b = append(b, c.errorType...)
	b = append(b, `","succeeded":`...)
	b = strconv.AppendBool(b, c.succeeded)
	if k.kind == routing.BYOK {
		b = append(b, `,"credentialSource":"byok","apiKeyHash":"`...)
		b = append(b, k.hash...)
		b = append(b, `","providerKeyId":`...)
		b = jsonx.AppendString(b, k.credential.ID)
		b = append(b, `,"providerKeyLabel":`...)
		b = jsonx.AppendString(b, k.label)
		return append(b, '}')
	}
	b = append(b, `,"credentialSource":"platform","apiKeyHash":"`...)
	b = append(b, k.hash...)
	return append(b, `"}`...)
}

// appendExcluded says who was dropped and why, where nobody was left.
func (r *run) appendExcluded(b []byte) []byte {
	b = append(b, `,"excluded":[`...)
	for i, x := range r.first.Excluded {
		if i > 0 {
			b = append(b, ',')
		}
		c := &r.in.Candidates[x.Candidate]
		b = append(b, `{"provider":`...)
		b = jsonx.AppendString(b, c.Provider)
		b = appendField(b, `,"region":`, c.Region)
		b = append(b, `,"code":"`...)
		b = append(b, x.Code.String()...)
		b = append(b, `"}`...)
	}
	b = append(b, ']')
	if unmet := r.first.Error.Unmet; len(unmet) > 0 {
		b = append(b, `,"unmet_requirements":[`...)
		for i, u := range unmet {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsonx.AppendString(b, u)
		}
		b = append(b, ']')
	}
	return b
}

// appendDropped says the same of those of every model, where auto found none.
func appendDropped(b []byte, seen []attempt.Considered) []byte {
	b = append(b, `,"excluded":[`...)
	first := true
	for i := range seen {
		c := &seen[i]
		if c.ExcludedCode == "" { // could serve it, but cannot read the reasoning that it replays
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, `{"provider":`...)
		b = jsonx.AppendString(b, c.Provider)
		b = appendField(b, `,"region":`, c.Region)
		b = appendField(b, `,"model":`, c.Model)
		b = appendField(b, `,"code":`, c.ExcludedCode)
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendField(b []byte, key, v string) []byte {
	if v == "" {
		return b
	}
	return jsonx.AppendString(append(b, key...), v)
}

// spliced is what goes into an answer: the metadata twice, or under turnout alone where there is a
// metadata that is not ours, as on every surface but chat; nothing if the client wants none. It is valid until the next call.
func (r *run) spliced(own bool) []byte {
	if r.req.Quiet {
		return nil
	}
	b := r.meta[:0]
	if !own && r.req.Endpoint == attempt.EndpointChat {
		b = r.object(append(b, `,"metadata":`...))
		end := len(b)
		b = append(b, `,"turnout":`...)
		b = append(b, b[len(`,"metadata":`):end]...)
	} else {
		b = r.object(append(b, `,"turnout":`...))
	}
	r.meta = b
	return b
}

// extra is what goes beside an error.
func (r *run) extra() []byte { return r.spliced(false) }

// appendUSD writes nano-USD as a decimal number of USD.
func appendUSD(b []byte, nano int64) []byte {
	if nano < 0 {
		b = append(b, '-')
		nano = -nano
	}
	b = strconv.AppendInt(b, nano/1e9, 10)
	rest := nano % 1e9
	if rest == 0 {
		return b
	}
	var digits [9]byte
	for i := 8; i >= 0; i-- {
		digits[i] = byte('0' + rest%10)
		rest /= 10
	}
	n := 9
	for digits[n-1] == '0' {
		n--
	}
	return append(append(b, '.'), digits[:n]...)
}
