package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONDepth bounds the nesting of values that are skipped over in a header.
const maxJSONDepth = 32

// headerScanner walks a JSON header in place. It takes what Java's fastjson takes in a header: whitespace,
// any key order, unknown keys, numbers as strings, extFields values that are no strings.
type headerScanner struct {
	b []byte
	i int
}

func (s *headerScanner) fail(what string) error {
	return fmt.Errorf("%w: JSON header: %s at byte %d", ErrMalformed, what, s.i)
}

// next skips whitespace and returns the byte there without taking it, 0 at the end.
func (s *headerScanner) next() byte {
	if s.i < len(s.b) && s.b[s.i] > ' ' { // the common case, inlined
		return s.b[s.i]
	}
	return s.nextSlow()
}

func (s *headerScanner) nextSlow() byte {
	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
		default:
			return s.b[s.i]
		}
	}
	return 0
}

// stringEnd finds the quote that ends a string whose content starts at i; -1 if there is none. It looks at
// eight bytes at a time: header values are mostly ids and properties of 16 to 200 bytes.
func stringEnd(b []byte, i int) (end int, escaped bool) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		q, e := w^ones*'"', w^ones*'\\' // zero bytes where the character stands
		hit := ((q - ones) &^ q & highs) | ((e - ones) &^ e & highs)
		if hit == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(hit) >> 3
		if b[i] == '"' {
			return i, escaped
		}
		escaped = true
		i += 2
	}
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i, escaped
		case '\\':
			escaped = true
			i++
		}
	}
	return -1, escaped
}

// str takes a string and returns its raw content.
func (s *headerScanner) str() (raw []byte, escaped bool, err error) {
	if s.next() != '"' {
		return nil, false, s.fail("string expected")
	}
	start := s.i + 1
	end, escaped := stringEnd(s.b, start)
	if end < 0 {
		return nil, false, s.fail("string does not end")
	}
	s.i = end + 1
	return s.b[start:end:end], escaped, nil
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
	switch s.next() {
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
	end, isObject := byte(']'), s.b[s.i] == '{'
	if isObject {
		end = '}'
	}
	last := s.open(end)
	for !last {
		if isObject {
			if _, _, _, err := s.value(depth); err != nil {
				return err
			}
			if err := s.colon(); err != nil {
				return err
			}
		}
		if _, _, _, err := s.value(depth); err != nil {
			return err
		}
		var err error
		if last, err = s.separator(end); err != nil {
			return err
		}
	}
	return nil
}

// open takes the opening bracket it stands at, and the closing one if nothing is between them: empty.
func (s *headerScanner) open(end byte) (empty bool) {
	s.i++
	if s.next() != end {
		return false
	}
	s.i++
	return true
}

// key takes the name of a member and the colon.
func (s *headerScanner) key() ([]byte, error) {
	if s.i < len(s.b) && s.b[s.i] == '"' { // the compact form
		from := s.i + 1
		if end, escaped := stringEnd(s.b, from); !escaped && end > 0 && end+1 < len(s.b) && s.b[end+1] == ':' {
			s.i = end + 2
			return s.b[from:end:end], nil
		}
	}
	key, escaped, err := s.str()
	if err != nil {
		return nil, err
	}
	if escaped { // no client does that
		key = appendUnescaped(nil, key)
	}
	return key, s.colon()
}

func (s *headerScanner) colon() error {
	if s.next() != ':' {
		return s.fail("':' expected")
	}
	s.i++
	return nil
}

// separator takes a comma, or the closing bracket: last.
func (s *headerScanner) separator(end byte) (last bool, err error) {
	switch s.next() {
	case ',':
		s.i++
		return false, nil
	case end:
		s.i++
		return true, nil
	}
	return false, s.fail("',' or end expected")
}

// decodeJSON reads the JSON header (spec wire.md §2) in one pass.
func (c *Command) decodeJSON(h []byte) error {
	if !isASCII(h) {
		if err := validText(h, "JSON header"); err != nil {
			return err
		}
	}
	if c.decodeCompact(h) {
		return nil
	}
	*c = Command{Type: c.Type, Fields: c.Fields[:0], Body: c.Body}
	return c.decodeAnyJSON(h)
}

// decodeAnyJSON takes all that Java's fastjson takes; h is UTF-8.
func (c *Command) decodeAnyJSON(h []byte) error {
	s := headerScanner{b: h}
	if s.next() != '{' {
		return s.fail("object expected")
	}
	for last := s.open('}'); !last; {
		key, err := s.key()
		if err != nil {
			return err
		}
		if string(key) == "extFields" && s.next() == '{' {
			err = c.decodeJSONFields(&s)
		} else {
			err = c.decodeJSONMember(&s, key)
		}
		if err != nil {
			return err
		}
		if last, err = s.separator('}'); err != nil {
			return err
		}
	}
	if s.next() != 0 || s.i != len(s.b) {
		return s.fail("end expected")
	}
	return nil
}

// decodeJSONFields reads the object extFields.
func (c *Command) decodeJSONFields(s *headerScanner) error {
	if s.open('}') {
		return nil
	}
	for {
		key, err := s.key()
		if err != nil {
			return err
		}
		raw, escaped, isNull, err := s.value(0)
		if err != nil {
			return err
		}
		if len(c.Fields) == MaxFields {
			return s.fail("too many extFields")
		}
		if !isNull {
			c.Fields = append(c.Fields, Field{Key: key, Value: raw, Escaped: escaped})
		}
		if last, err := s.separator('}'); last || err != nil {
			return err
		}
	}
}

func (c *Command) decodeJSONMember(s *headerScanner, key []byte) (err error) {
	switch string(key) {
	case "code":
		var code int32
		code, err = s.int32("code", int32(c.Code))
		c.Code = int(code)
		return err
	case "version":
		var version int32
		version, err = s.int32("version", int32(c.Version))
		c.Version = int(version)
		return err
	case "opaque":
		c.Opaque, err = s.int32("opaque", c.Opaque)
		return err
	case "flag":
		c.Flag, err = s.int32("flag", c.Flag)
		return err
	}
	raw, escaped, isNull, err := s.value(0)
	if err != nil || isNull {
		return err
	}
	switch string(key) {
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

// int32 takes a number, in quotes or not; null leaves it as it was.
func (s *headerScanner) int32(key string, was int32) (int32, error) {
	// The common case: a few digits and what follows them.
	v, i := int64(0), s.i
	for ; i < len(s.b) && i < s.i+10 && s.b[i]-'0' <= 9; i++ {
		v = v*10 + int64(s.b[i]-'0')
	}
	if i > s.i && i < len(s.b) && (s.b[i] == ',' || s.b[i] == '}') && v == int64(int32(v)) {
		s.i = i
		return int32(v), nil
	}
	raw, escaped, isNull, err := s.value(0)
	if err != nil || isNull {
		return was, err
	}
	if escaped {
		raw = appendUnescaped(nil, raw)
	}
	v, ok := parseInt(raw)
	if !ok || v != int64(int32(v)) {
		return 0, s.fail(key + " is no 32-bit number")
	}
	return int32(v), nil
}

// parseInt reads a decimal int64 without allocating. Signs are taken as Java's Long.parseLong does.
func parseInt(b []byte) (v int64, ok bool) {
	i, neg := 0, false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		neg, i = b[0] == '-', 1
	}
	if i == len(b) {
		return 0, false
	}
	for b[i] == '0' && i < len(b)-1 {
		i++
	}
	if len(b)-i > 19 { // more digits do not fit, 19 fit into u
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
		plain := bytes.IndexByte(raw[i:], '\\')
		if plain < 0 || i+plain+1 == len(raw) {
			return append(dst, raw[i:]...)
		}
		dst = append(dst, raw[i:i+plain]...)
		i += plain + 1
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
			if i+4 < len(raw) && string(raw[i+1:i+4]) == "000" && raw[i+4]-'0' <= 9 { // the separators of properties
				dst = append(dst, raw[i+4]-'0')
				i += 4
				continue
			}
			r, ok := hex4(raw[i+1:])
			if !ok {
				dst = append(dst, 'u')
				continue
			}
			i += 4
			if r < 0x80 {
				dst = append(dst, byte(r))
				continue
			}
			if utf16.IsSurrogate(r) && i+6 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
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

// appendJSON writes the header with Java's keys in Java's order; client-go and the C++ client read it by
// hand, so it stays compact.
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

// jsonEscaped tells which bytes are escaped.
var jsonEscaped = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// appendJSONEscaped writes the content of a JSON string as fastjson does: control characters, quote and
// backslash escaped, the rest raw.
func appendJSONEscaped[T string | []byte](dst []byte, s T) []byte {
	start := 0
	for i := range len(s) {
		c := s[i]
		if !jsonEscaped[c] {
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
