package codec

import (
	"encoding/binary"
	"math/bits"
)

// decodeCompact reads a JSON header of the form that all clients send: no blanks, the known members in any order, numbers
// without quotes, extFields with string values. It is what a message costs most of in codec, so it does one pass with
// whole words: a field with a name of one letter (the V2 send header) is recognized by one compare, and values are
// searched for their end eight bytes at a time. false: the header is another one and c is to be decoded by the tolerant
// scanner, from the beginning. The bytes are valid UTF-8 already.
func (c *Command) decodeCompact(b []byte) bool {
	if len(b) < 16 || b[0] != '{' || b[len(b)-1] != '}' {
		return false
	}
	for i := 1; ; i++ {
		if i = c.compactHeaderMember(b, i); i < 0 || i >= len(b) {
			return false
		}
		if b[i] != ',' {
			return b[i] == '}' && i == len(b)-1
		}
	}
}

// compactHeaderMember reads the member at i and returns the position behind it, -1 if it is none of the usual ones.
func (c *Command) compactHeaderMember(b []byte, i int) (end int) {
	rest := b[i:]
	if len(rest) < 8 || rest[0] != '"' {
		return -1
	}
	switch rest[1] {
	case 'c':
		if string(rest[:7]) == `"code":` {
			n, end := compactInt32(b, i+7)
			c.Code = int(n)
			return end
		}
	case 'e':
		if len(rest) > 13 && string(rest[:13]) == `"extFields":{` {
			return c.compactFields(b, i+13)
		}
	case 'f':
		if string(rest[:7]) == `"flag":` {
			c.Flag, end = compactInt32(b, i+7)
			return end
		}
	case 'l':
		if len(rest) > 12 && string(rest[:12]) == `"language":"` {
			if end = compactEnd(b, i+12); end > 0 {
				c.Language = parseLanguage(b[i+12 : end])
				return end + 1
			}
		}
	case 'o':
		if len(rest) > 9 && string(rest[:9]) == `"opaque":` {
			c.Opaque, end = compactInt32(b, i+9)
			return end
		}
	case 's':
		const member = `"serializeTypeCurrentRPC":"JSON"`
		if len(rest) > len(member) && string(rest[:len(member)]) == member {
			return i + len(member)
		}
	case 'v':
		if len(rest) > 10 && string(rest[:10]) == `"version":` {
			n, end := compactInt32(b, i+10)
			c.Version = int(n)
			return end
		}
	}
	return -1
}

// compactFields reads the members of extFields from i on and returns the position behind the bracket, -1 if they are not
// plain strings.
func (c *Command) compactFields(b []byte, i int) (end int) {
	if len(c.Fields) > 0 { // a second extFields
		return -1
	}
	const quotes, letter = '"' | '"'<<16 | ':'<<24, 0xFF << 8
	fields := c.Fields // in a local: no store to the heap per field
	for {
		if i+8 >= len(b) || len(fields) == MaxFields {
			return -1
		}
		var key []byte
		if w := binary.LittleEndian.Uint32(b[i:]); w&^letter == quotes && b[i+1] != '\\' && b[i+1] != '"' {
			key = b[i+1 : i+2 : i+2]
			i += 4
		} else {
			if b[i] != '"' {
				return -1
			}
			to := compactEnd(b, i+1)
			if to < 0 || to+3 >= len(b) || b[to+1] != ':' {
				return -1
			}
			key = b[i+1 : to : to]
			i = to + 2
		}
		if b[i] != '"' {
			return -1
		}
		i++
		to, escaped := stringEnd(b, i)
		if to < 0 || to+1 >= len(b) {
			return -1
		}
		fields = append(fields, Field{Key: key, Value: b[i:to:to], Escaped: escaped})
		i = to + 2
		if b[to+1] == ',' {
			continue
		}
		if b[to+1] != '}' {
			return -1
		}
		c.Fields = fields
		return i
	}
}

// compactEnd finds the quote that ends a string without escapes whose content starts at i; -1 if there is none.
func compactEnd(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		q, e := w^ones*'"', w^ones*'\\' // zero bytes where the character stands
		if hit := ((q - ones) &^ q & highs) | ((e - ones) &^ e & highs); hit != 0 {
			if i += bits.TrailingZeros64(hit) >> 3; b[i] == '"' {
				return i
			}
			return -1
		}
	}
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i
		case '\\':
			return -1
		}
	}
	return -1
}

// compactInt32 reads a number of at most ten digits, with a sign or not, and returns the position behind it, -1 if there
// is none or it is no int32.
func compactInt32(b []byte, i int) (v int32, end int) {
	neg := i < len(b) && b[i] == '-'
	if neg {
		i++
	}
	from, n := i, int64(0)
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		if i == from+10 {
			return 0, -1
		}
		n = n*10 + int64(b[i]-'0')
	}
	if i == from || i == len(b) || b[i] != ',' && b[i] != '}' {
		return 0, -1
	}
	if neg {
		n = -n
	}
	if n != int64(int32(n)) {
		return 0, -1
	}
	return int32(n), i
}
