package filter

import (
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// parseInteger reads text as Java's Integer.valueOf (bits 32) or Long.valueOf (bits 64): an optional sign
// and decimal digits, which may be digits of any script in the basic plane. It answers false where Java
// throws NumberFormatException.
func parseInteger(text []byte, bits int) (int64, bool) {
	neg := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		neg = text[0] == '-'
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, false
	}
	limit := uint64(1) << (bits - 1) // magnitude of the smallest value
	if !neg {
		limit--
	}
	var n uint64
	for i := 0; i < len(text); {
		digit, size := uint64(text[i]-'0'), 1
		if digit > 9 {
			if digit, size = unicodeDigit(text[i:]); size == 0 {
				return 0, false
			}
		}
		if n > (limit-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
		i += size
	}
	if neg {
		return -int64(n), true
	}
	return int64(n), true
}

// unicodeDigit decodes a decimal digit outside ASCII as Java's Character.digit(char, 10) does; size 0
// says there is none.
func unicodeDigit(text []byte) (digit uint64, size int) {
	r, size := utf8.DecodeRune(text)
	if r < utf8.RuneSelf || r > 0xFFFF || r == utf8.RuneError {
		return 0, 0
	}
	for _, rng := range unicode.Nd.R16 {
		if uint16(r) < rng.Lo {
			break
		}
		if uint16(r) <= rng.Hi {
			return uint64(uint16(r)-rng.Lo) % 10, size // every range is one or more whole runs 0 to 9
		}
	}
	return 0, 0
}

// parseDouble reads text as Java's Double.valueOf: blanks and control characters around it are dropped,
// then NaN, Infinity, a decimal or a hexadecimal float, each with an optional sign and the numbers with
// an optional suffix f or d. It answers false where Java throws NumberFormatException.
func parseDouble(text []byte) (float64, bool) {
	for len(text) > 0 && text[0] <= ' ' {
		text = text[1:]
	}
	for len(text) > 0 && text[len(text)-1] <= ' ' {
		text = text[:len(text)-1]
	}
	if v, ok := parseSmallInteger(text); ok {
		return v, true
	}
	body, neg := text, false
	if len(body) > 0 && (body[0] == '-' || body[0] == '+') {
		neg = body[0] == '-'
		body = body[1:]
	}
	switch string(body) {
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		if neg {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	}
	n := scanDouble(body)
	if n == 0 {
		return 0, false
	}
	rest := body[n:]
	if len(rest) == 1 && (rest[0]|0x20 == 'f' || rest[0]|0x20 == 'd') {
		rest = nil
	}
	if len(rest) != 0 {
		return 0, false
	}
	// The only possible error is a value out of range, for which the result is ±Inf as in Java.
	v, _ := strconv.ParseFloat(string(body[:n]), 64)
	if neg {
		v = -v
	}
	return v, true
}

// parseSmallInteger is the fast way for what most numeric properties hold: up to 15 digits, which are exact.
func parseSmallInteger(text []byte) (float64, bool) {
	if len(text) == 0 || len(text) > 15 {
		return 0, false
	}
	var n int64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return float64(n), true
}

// scanDouble returns the length of the unsigned decimal or hexadecimal float at the start of text,
// without suffix, or 0. A hexadecimal float must have an exponent.
func scanDouble(text []byte) int {
	i, isDigit, exponent := 0, isDecimal, byte('e')
	if len(text) > 2 && text[0] == '0' && text[1]|0x20 == 'x' {
		i, isDigit, exponent = 2, isHex, 'p'
	}
	digits := 0
	for ; i < len(text) && isDigit(text[i]); i++ {
		digits++
	}
	if i < len(text) && text[i] == '.' {
		for i++; i < len(text) && isDigit(text[i]); i++ {
			digits++
		}
	}
	if digits == 0 {
		return 0
	}
	if i < len(text) && text[i]|0x20 == exponent {
		j := i + 1
		if j < len(text) && (text[j] == '-' || text[j] == '+') {
			j++
		}
		first := j
		for ; j < len(text) && isDecimal(text[j]); j++ {
		}
		if j == first {
			return 0
		}
		return j
	}
	if exponent == 'p' {
		return 0
	}
	return i
}

func isDecimal(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDecimal(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// compareDoubles orders as Java's Double.compare: NaN equals itself and is above everything, 0.0 is above
// -0.0.
func compareDoubles(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return compareInts(doubleRank(a), doubleRank(b))
}

// doubleRank orders the values that < and > cannot tell apart.
func doubleRank(v float64) int64 {
	if v != v {
		return math.MaxInt64
	}
	return int64(math.Float64bits(v)) // -0.0 has the sign bit and comes out smallest
}

func compareInts(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
