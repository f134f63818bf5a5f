package codec

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONDepth bounds the nesting of values that are skipped over in a header.
const maxJSONDepth = 32

// headerScanner walks a JSON header in place. It takes what Java's fastjson takes in a header: whitespace, any key
// order, unknown keys, numbers as strings, extFields values that are no strings.
type headerScanner struct {
	b []byte
	i int
}

func (s *headerScanner) fail(what string) error {
	return fmt.Errorf("%w: JSON header: %s at byte %d", ErrMalformed, what, s.i)
}

func (s *headerScanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// next skips whitespace and returns the byte there without taking it, 0 at the end.
func (s *headerScanner) next() byte {
	s.space()
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// str takes a string and returns its raw content.
func (s *headerScanner) str() (raw []byte, escaped bool, err error) {
	if s.next() != '"' {
		return nil, false, s.fail("string expected")
	}
	s.i++
	start := s.i
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			raw = s.b[start:s.i:s.i]
			s.i++
			return raw, escaped, nil
		case '\\':
			escaped = true
			s.i++
		}
		s.i++
	}
	return nil, false, s.fail("string does not end")
}

// scalar takes a number or word: everything up to a separator.
func (s *headerScanner) scalar() []byte {
	start := s.i
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r', ':':
			return s.b[start:s.i:s.i]
		}
		s.i++
	}
	return s.b[start:s.i:s.i]
}

// value takes any value and returns its text: the content of a string, the bytes of anything else.
func (s *headerScanner) value(depth int) (raw []byte, escaped, isNull bool, err error) {
	switch c := s.next(); c {
	case '"':
		raw, escaped, err = s.str()
		return raw, escaped, false, err
	case '{', '[':
		start := s.i
		err = s.skip(depth + 1)
		return s.b[start:s.i:s.i], false, false, err
	case 0:
		return nil, false, false, s.fail("value expected")
	default:
		raw = s.scalar()
		if len(raw) == 0 {
			return nil, false, false, s.fail("value expected")
		}
		return raw, false, string(raw) == "null", nil
	}
}

// skip walks over an object or array.
func (s *headerScanner) skip(depth int) error {
	if depth > maxJSONDepth {
		return s.fail("nested too deep")
	}
	open := s.b[s.i]
	end := byte('}')
	if open == '[' {
		end = ']'
	}
	s.i++
	if s.next() == end {
		s.i++
		return nil
	}
	for {
		if open == '{' {
			if _, _, _, err := s.value(depth); err != nil {
				return err
			}
			if s.next() != ':' {
				return s.fail("':' expected")
			}
			s.i++
		}
		if _, _, _, err := s.value(depth); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.i++
		case end:
			s.i++
			return nil
		default:
			return s.fail("',' or end expected")
		}
	}
}

// object walks an object and calls member for each key, with the scanner before the value.
func (s *headerScanner) object(member func(key []byte) error) error {
	if s.next() != '{' {
		return s.fail("object expected")
	}
	s.i++
	if s.next() == '}' {
		s.i++
		return nil
	}
	for {
		key, _, err := s.str()
		if err != nil {
			return err
		}
		if s.next() != ':' {
			return s.fail("':' expected")
		}
		s.i++
		if err := member(key); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.i++
		case '}':
			s.i++
			return nil
		default:
			return s.fail("',' or '}' expected")
		}
	}
}

// decodeJSON reads the JSON header (spec wire.md §2).
func (c *Command) decodeJSON(h []byte) error {
	if err := validText(h, "JSON header"); err != nil {
		return err
	}
	s := headerScanner{b: h}
	err := s.object(func(key []byte) error { return c.decodeJSONMember(&s, key) })
	if err != nil {
		return err
	}
	if s.next() != 0 || s.i != len(s.b) {
		return s.fail("end expected")
	}
	return nil
}

func (c *Command) decodeJSONMember(s *headerScanner, key []byte) error {
	if string(key) == "extFields" && s.next() == '{' {
		return s.object(func(name []byte) error { return c.decodeJSONField(s, name) })
	}
	raw, escaped, isNull, err := s.value(0)
	if err != nil || isNull {
		return err
	}
	switch string(key) {
	case "code":
		return s.int32Into(raw, "code", func(v int32) { c.Code = int(v) })
	case "version":
		return s.int32Into(raw, "version", func(v int32) { c.Version = int(v) })
	case "opaque":
		return s.int32Into(raw, "opaque", func(v int32) { c.Opaque = v })
	case "flag":
		return s.int32Into(raw, "flag", func(v int32) { c.Flag = v })
	case "language":
		c.Language = parseLanguage(raw)
	case "remark":
		if escaped {
			raw = appendUnescaped(nil, raw)
		}
		c.Remark = string(raw)
	case "extFields":
		return s.fail("extFields is no object")
	}
	return nil
}

func (c *Command) decodeJSONField(s *headerScanner, name []byte) error {
	raw, escaped, isNull, err := s.value(0)
	if err != nil {
		return err
	}
	if !isNull {
		c.Fields = append(c.Fields, Field{Key: name, Value: raw, Escaped: escaped})
	}
	return nil
}

func (s *headerScanner) int32Into(raw []byte, key string, set func(int32)) error {
	v, ok := parseInt(raw)
	if !ok || v != int64(int32(v)) {
		return s.fail(fmt.Sprintf("%s is no 32-bit number", key))
	}
	set(int32(v))
	return nil
}

// parseInt reads a decimal int64 without allocating. Signs are taken as Java's Long.parseLong does.
func parseInt(b []byte) (v int64, ok bool) {
	i, neg := 0, false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		neg, i = b[0] == '-', 1
	}
	if i == len(b) || len(b)-i > 19 {
		return 0, false
	}
	var u uint64
	for ; i < len(b); i++ {
		d := b[i] - '0'
		if d > 9 {
			return 0, false
		}
		u = u*10 + uint64(d)
	}
	switch {
	case neg && u <= 1<<63:
		return -int64(u), true
	case !neg && u < 1<<63:
		return int64(u), true
	}
	return 0, false
}

// appendUnescaped resolves JSON escapes; an unknown escape keeps the character after the backslash, a lone
// surrogate becomes U+FFFD.
func appendUnescaped(dst, raw []byte) []byte {
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c != '\\' || i+1 == len(raw) {
			dst = append(dst, c)
			continue
		}
		i++
		switch raw[i] {
		case 'n':
			dst = append(dst, '\n')
		case 't':
			dst = append(dst, '\t')
		case 'r':
			dst = append(dst, '\r')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'u':
			r, ok := hex4(raw[i+1:])
			if !ok {
				dst = append(dst, 'u')
				continue
			}
			i += 4
			if r < 0x80 { // the \u0001 and \u0002 of properties
				dst = append(dst, byte(r))
				continue
			}
			if utf16.IsSurrogate(r) && i+6 < len(raw)+0 && raw[i+1] == '\\' && raw[i+2] == 'u' {
				if lo, ok := hex4(raw[i+3:]); ok {
					if both := utf16.DecodeRune(r, lo); both != utf8.RuneError {
						dst = utf8.AppendRune(dst, both)
						i += 6
						continue
					}
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, raw[i])
		}
	}
	return dst
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// appendJSON writes the header with Java's keys in Java's order; client-go and the C++ client read it by hand, so
// it stays compact.
func (c *Command) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(c.Code), 10)
	if len(c.Fields) > 0 {
		dst = append(dst, `,"extFields":{`...)
		for i := range c.Fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSONString(dst, c.Fields[i].Key)
			dst = append(dst, ':')
			if f := &c.Fields[i]; f.Escaped {
				dst = append(append(append(dst, '"'), f.Value...), '"')
			} else {
				dst = appendJSONString(dst, f.Value)
			}
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `,"flag":`...)
	dst = strconv.AppendInt(dst, int64(c.Flag), 10)
	dst = append(dst, `,"language":"`...)
	dst = append(dst, c.Language.String()...)
	dst = append(dst, `","opaque":`...)
	dst = strconv.AppendInt(dst, int64(c.Opaque), 10)
	if c.Remark != "" {
		dst = append(dst, `,"remark":`...)
		dst = appendJSONString(dst, []byte(c.Remark))
	}
	dst = append(dst, `,"serializeTypeCurrentRPC":"JSON","version":`...)
	dst = strconv.AppendInt(dst, int64(c.Version), 10)
	return append(dst, '}')
}

const hexDigits = "0123456789abcdef"

// appendJSONString quotes s as fastjson does.
func appendJSONString(dst, s []byte) []byte {
	return append(appendJSONEscaped(append(dst, '"'), s), '"')
}

// appendJSONEscaped writes the content of a JSON string as fastjson does: control characters, quote and backslash
// escaped, the rest raw.
func appendJSONEscaped[T string | []byte](dst []byte, s T) []byte {
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, s[start:]...)
}
