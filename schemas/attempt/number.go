package attempt

import "strconv"

// number reads a JSON number and returns its text, and whether it is written as an integer.
func (d *decoder) number(want string) (text string, integer bool) {
	if c := d.peek(); c != '-' && (c < '0' || c > '9') {
		d.mismatch(want)
		return "", false
	}
	s, i := d.data, d.pos
	if s[i] == '-' {
		i++
	}
	first := i
	i = digits(s, i)
	valid := i > first && (s[first] != '0' || i == first+1)
	integer = true
	if i < len(s) && s[i] == '.' {
		integer = false
		next := digits(s, i+1)
		valid = valid && next > i+1
		i = next
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		integer = false
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		next := digits(s, i)
		valid = valid && next > i
		i = next
	}
	if !valid {
		d.fail("not a JSON number")
		return "", false
	}
	text = s[d.pos:i]
	d.pos = i
	return text, integer
}

func digits(s string, i int) int {
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

// common reads the numbers that make up nearly all records: up to 15 digits, with or without a
// fraction, followed by a comma or a bracket. ok is false, and nothing is read, for every other.
func (d *decoder) common() (digits int64, fraction int, negative, ok bool) {
	s, i := d.data, d.pos
	if i < len(s) && s[i] == '-' {
		negative = true
		i++
	}
	first, point := i, -1
	for ; i < len(s); i++ {
		c := s[i]
		if c >= '0' && c <= '9' {
			digits = digits*10 + int64(c-'0')
			continue
		}
		if c != '.' || point >= 0 {
			break
		}
		point = i
	}
	whole := i - first
	if point >= 0 {
		whole, fraction = point-first, i-point-1
	}
	ok = whole > 0 && (whole == 1 || s[first] != '0') && i-first <= 16 && whole+fraction <= 15 &&
		(point < 0 || fraction > 0) && (digits != 0 || !negative) && i < len(s) && (s[i] == ',' || s[i] == '}' || s[i] == ']')
	if ok {
		d.pos = i
	}
	return digits, fraction, negative, ok
}

func (d *decoder) int() int64 {
	if d.err != nil || d.null() {
		return 0
	}
	at := d.pos
	if v, fraction, negative, ok := d.common(); ok {
		if fraction == 0 {
			if negative {
				return -v
			}
			return v
		}
		d.pos = at
	}
	text, integer := d.number("an integer")
	if d.err != nil {
		return 0
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !integer {
		d.fail("expected an integer of 64 bits, found " + text[:min(len(text), 40)])
		return 0
	}
	return v
}

func (d *decoder) uint() uint64 {
	if d.err != nil || d.null() {
		return 0
	}
	text, integer := d.number("an unsigned integer")
	if d.err != nil {
		return 0
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil || !integer {
		d.fail("expected an unsigned integer of 64 bits, found " + text[:min(len(text), 40)])
		return 0
	}
	return v
}

func (d *decoder) intPointer() *int64 {
	if d.err != nil || d.null() {
		return nil
	}
	v := d.int()
	return &v
}

var powers = [16]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

func (d *decoder) float() float64 {
	if d.err != nil || d.null() {
		return 0
	}
	if digits, fraction, negative, ok := d.common(); ok {
		v := float64(digits) / powers[fraction] // both exact, so that the one rounding is right
		if negative {
			return -v
		}
		return v
	}
	text, _ := d.number("a number")
	if d.err != nil {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d.fail("a number out of range: " + text[:min(len(text), 40)])
		return 0
	}
	return v
}

func (d *decoder) floatPointer() *float64 {
	if d.err != nil || d.null() {
		return nil
	}
	v := d.float()
	if len(d.floats) == cap(d.floats) {
		d.floats = make([]float64, 0, max(4, min(2*cap(d.floats), 32)))
	}
	d.floats = append(d.floats, v)
	return &d.floats[len(d.floats)-1]
}
