package pricing

import (
	"math"
	"math/bits"

	"turnout/schemas/resource"
)

// Usage is the tokens of one answer. Input holds all input tokens, the cached, written, image and
// audio ones among them; Output all output tokens, reasoning, image and audio ones among them.
// Negative counts are taken as zero, and parts that exceed their whole are cut to it.
type Usage struct {
	Input, Cached, CacheWrite, CacheWrite1h, ImageInput, AudioInput int64
	Output, AudioOutput, ImageOutput                                int64
	ServiceTier                                                     string
}

// Empty says whether no tokens were used, so that there is nothing to compare.
func (u *Usage) Empty() bool { return u.Input <= 0 && u.Output <= 0 }

// Cost is what a usage costs, in nano-USD. Each part is exact, rounded half up once; a part that no
// int64 can hold is math.MaxInt64.
type Cost struct {
	Input      int64 // what no other part holds
	Cached     int64
	CacheWrite int64 // of both durations
	Output     int64 // image output among it
	ImageInput int64
	Audio      int64 // input and output
	Request    int64
}

// Total is the sum of the parts, math.MaxInt64 at most.
func (c *Cost) Total() int64 {
	var total int64
	for _, part := range [...]int64{c.Input, c.Cached, c.CacheWrite, c.Output, c.ImageInput, c.Audio, c.Request} {
		if total > math.MaxInt64-part {
			return math.MaxInt64
		}
		total += part
	}
	return total
}

// Cost prices a usage at the tier its input tokens reach. Tokens without a rate of their own cost
// what input does, or output for audio and image output; one-hour writes what other writes do.
func (s *Schedule) Cost(u *Usage) Cost {
	p := s.At(u.Input, u.ServiceTier)
	keep := keepShare(s.Discount)
	input := max(u.Input, 0)
	cached := take(&input, u.Cached)
	write := take(&input, u.CacheWrite)
	write1h := take(&input, u.CacheWrite1h)
	image := take(&input, u.ImageInput)
	audioIn := take(&input, u.AudioInput)
	output := max(u.Output, 0)
	audioOut := take(&output, u.AudioOutput)
	imageOut := take(&output, u.ImageOutput)

	writeRate := orElse(p.CacheWrite, p.Input)
	c := Cost{
		Input:      money(product(input, p.Input), keep),
		Cached:     money(product(cached, orElse(p.CachedInput, p.Input)), keep),
		CacheWrite: money(product(write, writeRate).plus(product(write1h, orElse(p.CacheWrite1h, writeRate))), keep),
		Output:     money(product(output, p.Output).plus(product(imageOut, orElse(p.ImageOutput, p.Output))), keep),
		ImageInput: money(product(image, orElse(p.ImageInput, p.Input)), keep),
		Audio:      money(product(audioIn, orElse(p.AudioInput, p.Input)).plus(product(audioOut, orElse(p.AudioOutput, p.Output))), keep),
	}
	if p.Request != nil {
		c.Request = money(product(perMillion, *p.Request), keep)
	}
	return c
}

// take moves up to n tokens out of what is left of the whole.
func take(whole *int64, n int64) int64 {
	n = min(max(n, 0), *whole)
	*whole -= n
	return n
}

func orElse(rate *resource.Rate, otherwise resource.Rate) resource.Rate {
	if rate != nil {
		return *rate
	}
	return otherwise
}

const (
	perMillion = 1_000_000     // rates are per so many tokens
	whole      = 1_000_000_000 // a share without discount: seven decimals of a percent count
)

// keepShare is what a discount in percent leaves, in parts of whole.
func keepShare(percent float64) uint64 {
	if !(percent > 0) {
		return whole
	}
	return whole - uint64(math.Round(min(percent, 100)*(whole/100)))
}

// amount is an unsigned 128-bit number: tokens times rates, never rounded.
type amount struct{ high, low uint64 }

func product(tokens int64, rate resource.Rate) amount {
	if rate <= 0 {
		return amount{}
	}
	high, low := bits.Mul64(uint64(tokens), uint64(rate))
	return amount{high, low}
}

// plus cannot overflow: a product of two int64 is below 2^126.
func (a amount) plus(b amount) amount {
	low, carry := bits.Add64(a.low, b.low, 0)
	return amount{a.high + b.high + carry, low}
}

// money turns an amount into nano-USD, keeping so many parts of whole of it, rounded half up.
func money(a amount, keep uint64) int64 {
	const divisor = perMillion * whole
	// a x keep has up to 192 bits: three digits of 64 bits, the highest first.
	h1, digit0 := bits.Mul64(a.low, keep)
	digit2, l2 := bits.Mul64(a.high, keep)
	digit1, carry := bits.Add64(h1, l2, 0)
	digit2 += carry
	digit0, carry = bits.Add64(digit0, divisor/2, 0)
	digit1, carry = bits.Add64(digit1, 0, carry)
	digit2 += carry
	// Long division; anything left of the lowest digit is beyond an int64.
	if digit2 >= divisor {
		return math.MaxInt64
	}
	quotient1, rest := bits.Div64(digit2, digit1, divisor)
	if quotient1 > 0 {
		return math.MaxInt64
	}
	quotient0, _ := bits.Div64(rest, digit0, divisor)
	if quotient0 > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(quotient0)
}
