package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Dist is a distribution of a quantity that is never negative. In JSON it is a number, which is what
// it always gives, {"uniform": [min, max]} or {"lognormal": {"p50": x, "p99": y}}.
type Dist struct {
	kind distKind
	a, b float64
}

type distKind uint8

const (
	fixed distKind = iota
	uniform
	lognormal
)

// Fixed always gives v.
func Fixed(v float64) Dist { return Dist{fixed, v, v} }

// Uniform gives every value from lo to hi alike.
func Uniform(lo, hi float64) Dist { return Dist{uniform, lo, hi} }

// Lognormal has the given median and 99th percentile.
func Lognormal(p50, p99 float64) Dist { return Dist{lognormal, p50, p99} }

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// At returns the quantile u, in [0,1).
func (d Dist) At(u float64) float64 {
	switch d.kind {
	case uniform:
		return d.a + u*(d.b-d.a)
	case lognormal:
		z := math.Sqrt2 * math.Erfinv(2*min(max(u, 1e-9), 1-1e-9)-1)
		return d.a * math.Exp(z*math.Log(d.b/d.a)/z99)
	}
	return d.a
}

func (d Dist) validate() error {
	for _, v := range []float64{d.a, d.b} {
		if math.IsNaN(v) || v < 0 || v > 1e9 {
			return fmt.Errorf("%v is not within 0 and 1e9", v)
		}
	}
	if d.b < d.a {
		return fmt.Errorf("%v is above %v: the smaller one stands first", d.a, d.b)
	}
	if d.kind == lognormal && d.a == 0 {
		return errors.New("the p50 of a lognormal distribution must be above 0")
	}
	return nil
}

type quantiles struct {
	P50 *float64 `json:"p50"`
	P99 *float64 `json:"p99"`
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (d Dist) MarshalJSON() ([]byte, error) {
	switch d.kind {
	case uniform:
		return json.Marshal(map[string][2]float64{"uniform": {d.a, d.b}})
	case lognormal:
		return json.Marshal(map[string]quantiles{"lognormal": {&d.a, &d.b}})
	}
	return json.Marshal(d.a)
}

// UnmarshalJSON reads a number or one of the two objects.
func (d *Dist) UnmarshalJSON(data []byte) error {
	var number float64
	if json.Unmarshal(data, &number) == nil && !bytes.Equal(data, []byte("null")) {
		*d = Fixed(number)
		return d.validate()
	}
	var form struct {
		Uniform   []float64  `json:"uniform"`
		Lognormal *quantiles `json:"lognormal"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&form)
	switch {
	case err == nil && len(form.Uniform) == 2 && form.Lognormal == nil:
		*d = Uniform(form.Uniform[0], form.Uniform[1])
	case err == nil && form.Uniform == nil && form.Lognormal != nil && form.Lognormal.P50 != nil && form.Lognormal.P99 != nil:
		*d = Lognormal(*form.Lognormal.P50, *form.Lognormal.P99)
	default:
		return fmt.Errorf(`%.60s is no distribution: give a number, {"uniform": [min, max]} or {"lognormal": {"p50": x, "p99": y}}`, data)
	}
	return d.validate()
}
