package routing

import (
	"math"
	"strconv"
)

const (
	significant  = 6   // digits that inputs are rounded to before they are scored
	stepsPerUnit = 1e9 // scores are compared in steps of 1e-9
)

// powers holds the powers of ten that a float64 holds exactly.
var powers = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// Round6 rounds to six significant digits, to the float64 nearest to that decimal, so that what is
// stored in six digits and read again is the same number. It is idempotent.
func Round6(x float64) float64 {
	if x < 0 {
		return -Round6(-x)
	}
	if x < 1e6 && x == math.Trunc(x) {
		return x
	}
	// Places after the point that keep six digits: 5 - floor(log10 x). The exponent of two gives the
	// logarithm within one; scaling shows which it is.
	exponent := int(math.Float64bits(x)>>52) - 1023
	places := significant - 1 - exponent*1233>>12
	if places < 2-len(powers) || places > len(powers)-2 {
		return round6Slowly(x)
	}
	scaled := scale(x, places)
	switch {
	case scaled >= 1e6:
		places--
		scaled = scale(x, places)
	case scaled < 1e5:
		places++
		scaled = scale(x, places)
	}
	digits := float64(int64(scaled + 0.5))
	return scale(digits, -places)
}

// scale multiplies by a power of ten, exactly rounded once.
func scale(x float64, places int) float64 {
	if places < 0 {
		return x / powers[-places]
	}
	return x * powers[places]
}

// round6Slowly serves magnitudes that no price, rate or time has, infinity and what is no number.
func round6Slowly(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'e', significant-1, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// steps is a score in the steps of 1e-9 that scores are compared in.
func steps(score float64) float64 { return math.Floor(score*stepsPerUnit + 0.5) }
