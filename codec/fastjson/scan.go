package fastjson

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// validUTF8 replaces each bad byte by U+FFFD, as Java's new String(bytes, UTF_8) does.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
	}
	return b.String()
}

// str reads a string in either kind of quotes.
func (p *parser) str(out *string) error {
	quote := p.s[p.i]
	p.i++
	start := p.i
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case quote:
			*out = validUTF8(p.s[start:p.i])
			p.i++
			return nil
		case '\\':
			return p.escaped(out, quote, start)
		}
		p.i++
	}
	return p.fail("string is not closed")
}

// escaped goes on with a string from its first backslash on.
func (p *parser) escaped(out *string, quote byte, start int) error {
	var b strings.Builder
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case quote:
			b.WriteString(p.s[start:p.i])
			*out = validUTF8(b.String())
			p.i++
			return nil
		case '\\':
			b.WriteString(p.s[start:p.i])
			r, err := p.escape()
			if err != nil {
				return err
			}
			b.WriteRune(r)
			start = p.i
		default:
			p.i++
		}
	}
	return p.fail("string is not closed")
}

// escape reads one escape sequence. A surrogate without its partner becomes U+FFFD.
func (p *parser) escape() (rune, error) {
	if p.i+1 >= len(p.s) {
		return 0, p.fail("string is not closed")
	}
	c := p.s[p.i+1]
	switch c {
	case '"', '\'', '\\', '/':
		p.i += 2
		return rune(c), nil
	case 'x':
		return p.hex(2)
	case 'u':
		r, err := p.hex(4)
		if err != nil || !utf16.IsSurrogate(r) {
			return r, err
		}
		back := p.i
		if strings.HasPrefix(p.s[p.i:], `\u`) {
			if low, err := p.hex(4); err == nil {
				if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
					return full, nil
				}
			}
		}
		p.i = back
		return utf8.RuneError, nil
	}
	const names, codes = "bftnrFv01234567", "\b\f\t\n\r\f\v\x00\x01\x02\x03\x04\x05\x06\x07"
	k := strings.IndexByte(names, c)
	if k < 0 {
		return 0, p.fail("unknown escape")
	}
	p.i += 2
	return rune(codes[k]), nil
}

// hex reads n hex digits behind a backslash and a letter.
func (p *parser) hex(n int) (rune, error) {
	if p.i+2+n > len(p.s) {
		return 0, p.fail("string is not closed")
	}
	var r rune
	for _, c := range []byte(p.s[p.i+2 : p.i+2+n]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, p.fail("not a hex digit in an escape")
		}
		r = r<<4 | rune(c)
	}
	p.i += 2 + n
	return r, nil
}

// number reads [+-]digits[.digits][e[+-]digits][LBSFD] and stores it in JSON's own form: no '+', no leading
// zeros, no bare '.', no type suffix.
func (p *parser) number(out *string) error {
	start := p.i
	loose := false
	if c := p.s[p.i]; c == '+' || c == '-' {
		p.i++
	}
	intStart := p.i
	intDigits := p.digits()
	if intDigits == 0 {
		return p.fail("digit expected")
	}
	loose = p.s[start] == '+' || intDigits > 1 && p.s[intStart] == '0'
	if p.peek() == '.' {
		p.i++
		loose = p.digits() == 0 || loose
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.i++
		if c := p.peek(); c == '+' || c == '-' {
			p.i++
		}
		if p.digits() == 0 {
			return p.fail("digit expected in an exponent")
		}
	}
	text := p.s[start:p.i]
	if c := p.peek(); c != 0 && strings.IndexByte("LBSFD", c) >= 0 {
		p.i++
	}
	if p.i < len(p.s) && (identPart(p.s[p.i]) || p.s[p.i] == '.') {
		return p.fail("number runs into other text")
	}
	if loose {
		text = tidyNumber(text)
	}
	*out = text
	return nil
}

func (p *parser) digits() int {
	start := p.i
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
		p.i++
	}
	return p.i - start
}

// tidyNumber drops '+', leading zeros and a dot without digits behind it.
func tidyNumber(s string) string {
	sign := ""
	switch s[0] {
	case '-':
		sign, s = "-", s[1:]
	case '+':
		s = s[1:]
	}
	for len(s) > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9' {
		s = s[1:]
	}
	if dot := strings.IndexByte(s, '.'); dot >= 0 && (dot+1 == len(s) || s[dot+1] == 'e' || s[dot+1] == 'E') {
		s = s[:dot] + s[dot+1:]
	}
	return sign + s
}
