package fastjson

import "strings"

// Limits bounds what one Parse may cost.
type Limits struct {
	// MaxBytes is the longest text. The tree of n bytes takes at most about 64·n bytes of memory.
	MaxBytes int
	// MaxDepth is the deepest nesting of arrays and objects, references followed. fastjson stops at 512 too.
	MaxDepth int
	// MaxValues is the number of values and keys in the text: one Value is 32 bytes.
	MaxValues int
	// MaxGrowth is how many bytes one byte of text may stand for once references are written out, with 32
	// bytes for each value besides its text. Below 64 KiB in all it does not bite. Text without references
	// stays under 64.
	MaxGrowth int
}

// DefaultLimits fits every body of a 16 MiB frame and config files of some million entries.
var DefaultLimits = Limits{MaxBytes: 256 << 20, MaxDepth: 512, MaxValues: 16 << 20, MaxGrowth: 64}

// Parse reads one value under DefaultLimits. The result does not alias data. Errors wrap ErrSyntax or
// ErrLimit.
func Parse(data []byte) (*Value, error) { return ParseLimits(data, DefaultLimits) }

// ParseLimits is Parse under given limits.
func ParseLimits(data []byte, lim Limits) (*Value, error) {
	if len(data) > lim.MaxBytes {
		return nil, limitError("bytes", lim.MaxBytes)
	}
	return parseString(string(data), lim)
}

// parseString is ParseLimits for a text that is a string already and so needs no copy.
func parseString(text string, lim Limits) (*Value, error) {
	if len(text) > lim.MaxBytes {
		return nil, limitError("bytes", lim.MaxBytes)
	}
	p := parser{s: text, lim: lim}
	p.s = strings.TrimPrefix(p.s, "\ufeff")
	p.bom = len(text) - len(p.s)
	root := new(Value)
	if err := p.value(root, 0); err != nil {
		return nil, err
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	if p.refs > 0 {
		if err := resolveRefs(root, lim, len(text)); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// parser is a cursor over the text. Strings without escapes are slices of s.
type parser struct {
	s      string
	i      int
	bom    int // bytes cut off in front of s
	values int // values and keys so far
	refs   int // "$ref" objects so far
	lim    Limits
}

func (p *parser) fail(msg string) error { return &SyntaxError{Offset: p.i + p.bom, Msg: msg} }

func (p *parser) peek() byte {
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

// blanks skips blanks and comments. An open /* is an error.
func (p *parser) blanks() error {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\b':
			p.i++
		case c == '/' && strings.HasPrefix(p.s[p.i:], "//"):
			if nl := strings.IndexByte(p.s[p.i:], '\n'); nl >= 0 {
				p.i += nl + 1
			} else {
				p.i = len(p.s)
			}
		case c == '/' && strings.HasPrefix(p.s[p.i:], "/*"):
			end := strings.Index(p.s[p.i+2:], "*/")
			if end < 0 {
				return p.fail("comment is not closed")
			}
			p.i += end + 4
		default:
			return nil
		}
	}
	return nil
}

// end accepts blanks, comments, NUL and SUB up to the end of the text.
func (p *parser) end() error {
	for {
		if err := p.blanks(); err != nil {
			return err
		}
		if p.i == len(p.s) {
			return nil
		}
		if c := p.s[p.i]; c != 0 && c != 0x1a {
			return p.fail("text behind the value")
		}
		p.i++
	}
}

// value reads one value with leading blanks into v.
func (p *parser) value(v *Value, depth int) error {
	if err := p.blanks(); err != nil {
		return err
	}
	if p.values++; p.values > p.lim.MaxValues {
		return limitError("values", p.lim.MaxValues)
	}
	if p.i == len(p.s) {
		return p.fail("text ends where a value should stand")
	}
	switch c := p.s[p.i]; {
	case c == '{':
		return p.object(v, depth+1)
	case c == '[':
		return p.array(v, depth+1)
	case c == '"' || c == '\'':
		v.kind = String
		return p.str(&v.text)
	case c == '-' || c == '+' || c >= '0' && c <= '9':
		v.kind = Number
		return p.number(&v.text)
	}
	return p.literal(v)
}

func (p *parser) literal(v *Value) error {
	end := p.i
	for end < len(p.s) && identPart(p.s[end]) {
		end++
	}
	switch word := p.s[p.i:end]; word {
	case "true", "false":
		v.kind, v.text = Bool, word
	case "null", "undefined", "NaN":
		v.kind = Null
	default:
		return p.fail("not a value")
	}
	p.i = end
	return nil
}

func (p *parser) array(v *Value, depth int) error {
	if depth > p.lim.MaxDepth {
		return limitError("nested levels", p.lim.MaxDepth)
	}
	p.i++
	var items []Value
	for comma := true; ; {
		if err := p.blanks(); err != nil {
			return err
		}
		switch {
		case p.i == len(p.s):
			return p.fail("array is not closed")
		case p.s[p.i] == ',':
			comma = true
			p.i++
			continue
		case p.s[p.i] == ']':
			p.i++
			v.kind = Array
			if len(items) > 0 {
				v.node = &node{items: items}
			}
			return nil
		case !comma:
			return p.fail("comma or ] expected")
		}
		comma = false
		items = append(items, Value{})
		if err := p.value(&items[len(items)-1], depth); err != nil {
			return err
		}
	}
}

func (p *parser) object(v *Value, depth int) error {
	if depth > p.lim.MaxDepth {
		return limitError("nested levels", p.lim.MaxDepth)
	}
	p.i++
	var members []Member
	for comma := true; ; {
		if err := p.blanks(); err != nil {
			return err
		}
		switch {
		case p.i == len(p.s):
			return p.fail("object is not closed")
		case p.s[p.i] == ',':
			comma = true
			p.i++
			continue
		case p.s[p.i] == '}':
			p.i++
			p.closeObject(v, members)
			return nil
		case !comma:
			return p.fail("comma or } expected")
		}
		comma = false
		members = append(members, Member{})
		if err := p.member(&members[len(members)-1], depth); err != nil {
			return err
		}
	}
}

func (p *parser) closeObject(v *Value, members []Member) {
	v.kind = Object
	if len(members) == 0 {
		return
	}
	v.node = &node{members: members}
	if len(members) > 1 {
		return
	}
	if m := &members[0]; m.Key.kind == String && m.Key.text == "$ref" && m.Val.kind == String {
		v.ref = true
		p.refs++
	}
}

func (p *parser) member(m *Member, depth int) error {
	if err := p.key(&m.Key, depth); err != nil {
		return err
	}
	if err := p.blanks(); err != nil {
		return err
	}
	if p.peek() != ':' {
		return p.fail("colon expected behind a key")
	}
	p.i++
	return p.value(&m.Val, depth)
}

// key reads a quoted, bare, numeric, object or array key.
func (p *parser) key(k *Value, depth int) error {
	switch c := p.s[p.i]; {
	case c == '"' || c == '\'' || c == '{' || c == '[' || c == '-' || c >= '0' && c <= '9':
		return p.value(k, depth)
	case !identStart(c):
		return p.fail("not a key")
	}
	if p.values++; p.values > p.lim.MaxValues {
		return limitError("values", p.lim.MaxValues)
	}
	start := p.i
	for p.i < len(p.s) && identPart(p.s[p.i]) {
		p.i++
	}
	k.kind, k.text = String, validUTF8(p.s[start:p.i])
	return nil
}

func identStart(c byte) bool {
	return c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func identPart(c byte) bool { return identStart(c) || c >= '0' && c <= '9' }
