package resource

import (
	"errors"
	"strconv"
	"strings"
)

const (
	rateDecimals = 9
	// MaxRate bounds a price: a million USD per 1M tokens. Anything above is a slip of the pen.
	MaxRate Rate = 1e6 * 1e9
)

// ParseRate reads a price in USD, such as 0.075 or 1e-7, exactly: never by way of a float.
func ParseRate(text string) (Rate, error) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	shift := 0
	if len(mantissa) < len(text) {
		n, err := strconv.Atoi(exponent)
		if err != nil || n < -30 || n > 30 {
			return 0, errors.New("is not a decimal number")
		}
		shift = n
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if digits == "" || point && fraction == "" || len(digits) > 40 {
		return 0, errors.New("is not a decimal number")
	}
	if strings.HasPrefix(digits, "-") {
		return 0, errors.New("is negative: a price is at least 0")
	}
	for _, d := range []byte(digits) {
		if d < '0' || d > '9' {
			return 0, errors.New("is not a decimal number")
		}
	}
	// The value is digits * 10^(places), in nano-USD.
	places := shift - len(fraction) + rateDecimals
	digits = strings.TrimLeft(digits, "0")
	for places < 0 && strings.HasSuffix(digits, "0") {
		digits, places = digits[:len(digits)-1], places+1
	}
	if digits == "" {
		return 0, nil
	}
	if places < 0 {
		return 0, errors.New("has more than 9 decimals")
	}
	if len(digits)+places > len("1000000000000000") {
		return 0, errors.New("is above 1000000 USD")
	}
	n, err := strconv.ParseInt(digits+strings.Repeat("0", places), 10, 64)
	if err != nil || Rate(n) > MaxRate {
		return 0, errors.New("is above 1000000 USD")
	}
	return Rate(n), nil
}

// String is the price in USD as the shortest exact decimal.
func (r Rate) String() string {
	sign, n := "", uint64(r)
	if r < 0 {
		sign, n = "-", -n
	}
	text := strconv.FormatUint(n, 10)
	if len(text) <= rateDecimals {
		text = strings.Repeat("0", rateDecimals+1-len(text)) + text
	}
	whole, fraction := text[:len(text)-rateDecimals], strings.TrimRight(text[len(text)-rateDecimals:], "0")
	if fraction == "" {
		return sign + whole
	}
	return sign + whole + "." + fraction
}
