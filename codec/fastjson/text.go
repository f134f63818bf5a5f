package fastjson

import (
	"cmp"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

func cmpOrdered[T cmp.Ordered](a, b T) int { return cmp.Compare(a, b) }

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// AppendString appends a text as Marshal writes it.
func AppendString(dst []byte, s string) []byte { return (&encoder{}).string(dst, s) }

// string writes s in double quotes. fastjson escapes '"', '\', U+0000-001F, U+007F-009F, U+2028 and U+2029,
// with upper-case hex digits; StandardKeys adds '/' and all that is not ASCII. Bad UTF-8 becomes U+FFFD.
func (e *encoder) string(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != 0x7f && (c != '/' || !e.opts.StandardKeys) {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			b = appendEscaped(b, c)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		bad := r == utf8.RuneError && n == 1
		if !bad && !e.opts.StandardKeys && r > 0x9f && r != 0x2028 && r != 0x2029 {
			i += n
			continue
		}
		b = append(b, s[start:i]...)
		i += n
		start = i
		switch hi, lo := utf16.EncodeRune(r); {
		case bad && !e.opts.StandardKeys:
			b = utf8.AppendRune(b, utf8.RuneError)
		case r > 0xffff:
			b = appendHex(appendHex(b, hi), lo)
		default:
			b = appendHex(b, r)
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func appendEscaped(b []byte, c byte) []byte {
	switch c {
	case '"', '\\', '/':
		return append(b, '\\', c)
	case '\b':
		return append(b, '\\', 'b')
	case '\t':
		return append(b, '\\', 't')
	case '\n':
		return append(b, '\\', 'n')
	case '\f':
		return append(b, '\\', 'f')
	case '\r':
		return append(b, '\\', 'r')
	}
	return appendHex(b, rune(c))
}

func appendHex(b []byte, r rune) []byte {
	const digits = "0123456789ABCDEF"
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// appendDouble writes f as Java's Double.toString (bits 64) or Float.toString (bits 32): the fewest digits
// that read back as f but at least one behind the point, plain from 1e-3 up to 1e7, else like 1.0E10. Where
// one digit would do, Java takes the nearest two (4.9E-324, not 5.0E-324).
func appendDouble(b []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	if f == 0 {
		if math.Signbit(f) {
			b = append(b, '-')
		}
		return append(b, "0.0"...)
	}
	var buf [32]byte
	s := strconv.AppendFloat(buf[:0], f, 'e', -1, bits)
	if s[0] == '-' {
		b = append(b, '-')
		s = s[1:]
	}
	if s[1] == 'e' {
		two := strconv.FormatFloat(math.Abs(f), 'e', 1, bits)
		if back, err := strconv.ParseFloat(two, bits); err == nil && back == math.Abs(f) {
			s = append(s[:0], two...)
		}
	}
	mant, exp := splitExp(s)
	if exp < -3 || exp >= 7 {
		b = append(b, mant[0], '.')
		if len(mant) == 1 {
			mant = append(mant, '0')
		}
		b = append(b, mant[1:]...)
		b = append(b, 'E')
		return strconv.AppendInt(b, int64(exp), 10)
	}
	return appendPlain(b, mant, exp)
}

// splitExp turns "1.25e+07" into the digits "125" and 7.
func splitExp(s []byte) (digits []byte, exp int) {
	for i, c := range s {
		switch {
		case c == 'e':
			exp, _ = strconv.Atoi(string(s[i+1:]))
			if len(digits) == 2 && digits[1] == '0' {
				digits = digits[:1]
			}
			return digits, exp
		case c != '.':
			digits = append(digits, c)
		}
	}
	return digits, 0
}

func appendPlain(b, digits []byte, exp int) []byte {
	if exp < 0 {
		b = append(b, "0."...)
		for range -exp - 1 {
			b = append(b, '0')
		}
		return append(b, digits...)
	}
	for i := range exp + 1 {
		if i < len(digits) {
			b = append(b, digits[i])
		} else {
			b = append(b, '0')
		}
	}
	b = append(b, '.')
	if len(digits) <= exp+1 {
		return append(b, '0')
	}
	return append(b, digits[exp+1:]...)
}

// value writes a parsed value. Bare names come out quoted, everything else keeps its text.
func (e *encoder) value(b []byte, v *Value, depth int) []byte {
	if depth > 2*maxDepth {
		e.fail("more than %d nested levels to write", maxDepth)
		return b
	}
	switch v.Kind() {
	case Null:
		return append(b, "null"...)
	case String:
		return e.string(b, v.text)
	case Bool, Number:
		return append(b, v.text...)
	case Array:
		return e.valueList(b, v, depth)
	}
	b = append(b, '{')
	e.indent++
	for i := range v.Members() {
		m := &v.node.members[i]
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case m.Key.kind == String:
			b = e.string(e.newline(b), m.Key.text)
		case e.opts.StandardKeys:
			b = e.string(b, m.Key.String())
		default:
			b = e.value(b, &m.Key, depth+1)
		}
		b = append(b, ':')
		b = e.value(b, &m.Val, depth+1)
	}
	e.indent--
	if v.node != nil {
		b = e.newline(b)
	}
	return append(b, '}')
}

func (e *encoder) valueList(b []byte, v *Value, depth int) []byte {
	b = append(b, '[')
	e.indent++
	for i := range v.Items() {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.value(e.newline(b), &v.node.items[i], depth+1)
	}
	e.indent--
	if v.node != nil {
		b = e.newline(b)
	}
	return append(b, ']')
}
