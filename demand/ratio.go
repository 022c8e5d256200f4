package demand

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Ratio is a number ≥ 0 without rounding, such as 0.7. The zero value is 0.
type Ratio struct {
	num, den int64 // den 0: 1
}

// A thousandth is the unit of Kubernetes' metrics; and with these bounds no
// product that is made of ratios and counts leaves an int64.
const (
	maxDigits = 3
	maxWhole  = 1000
)

// ParseRatio reads a decimal number from 0 to 1000 with at most 3 digits after the point.
func ParseRatio(s string) (Ratio, error) {
	whole, part, point := strings.Cut(s, ".")
	if point && part == "" || len(part) > maxDigits {
		return Ratio{}, fmt.Errorf("demand: %.40q: want a decimal number with at most %d digits after the point", s, maxDigits)
	}
	w, errWhole := strconv.ParseUint(whole, 10, 32)
	p, errPart := strconv.ParseUint("0"+part, 10, 32)
	r := Ratio{num: int64(w), den: 1}
	for range part {
		r.num *= 10
		r.den *= 10
	}
	r.num += int64(p)
	if err := errors.Join(errWhole, errPart); err != nil || r.num > maxWhole*r.den {
		return Ratio{}, fmt.Errorf("demand: %.40q: want a decimal number from 0 to %d", s, maxWhole)
	}
	return r, nil
}

// tenths is n/10.
func tenths(n int64) Ratio { return Ratio{num: n, den: 10} }

func (r Ratio) denominator() int64 { return max(1, r.den) }

// IsZero reports whether r is 0.
func (r Ratio) IsZero() bool { return r.num == 0 }

// String is the shortest decimal number that is r.
func (r Ratio) String() string {
	den := r.denominator()
	s := strconv.FormatInt(r.num/den, 10)
	if rest := r.num % den; rest != 0 {
		digits := len(strconv.FormatInt(den, 10)) - 1
		s += "." + strings.TrimRight(fmt.Sprintf("%0*d", digits, rest), "0")
	}
	return s
}

// MarshalJSON writes r as a number.
func (r Ratio) MarshalJSON() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalJSON reads a number, or the same as text, digit by digit.
func (r *Ratio) UnmarshalJSON(b []byte) error { return r.UnmarshalText(b) }

// UnmarshalText reads what [ParseRatio] reads.
func (r *Ratio) UnmarshalText(b []byte) error {
	v, err := ParseRatio(strings.Trim(string(b), `"`))
	if err == nil {
		*r = v
	}
	return err
}

// ceil is the smallest whole number that is at least n/r, for r > 0.
func (r Ratio) ceil(n int) int {
	return int((int64(n)*r.denominator() + r.num - 1) / r.num)
}
