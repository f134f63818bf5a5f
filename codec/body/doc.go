// Package body has the JSON bodies of the remoting protocol as Go structs (Java packages protocol.body,
// route, heartbeat, admin, subscription and statictopic; spec bodies.md). Tags are Java's member names,
// SetDefaults gives what Java's field initializers give, fields whose absence means something are pointers.
//
// Encode writes the byte shape of fastjson's toJSONString, which hand-written readers of other languages rely
// on (client-go splits the text of route and reset bodies by hand); Decode takes all that fastjson takes.
// Route data has a second, standard encoding for clients from 4.9.4 on. Register bodies may come as a zlib
// stream of text lines.
//
// The files of a broker's config directory hold some of the same structs: see fastjson.MarshalPretty.
package body

import "skylark/codec/fastjson"

// Encode is the body text of v in legacy shape: compact, members sorted, integer and object keys unquoted.
func Encode(v any) ([]byte, error) { return fastjson.Marshal(v) }

// Decode reads a body into what ptr points to. Members that are absent keep Java's defaults, unknown ones are
// ignored.
func Decode(data []byte, ptr any) error { return fastjson.Unmarshal(data, ptr) }

// enumName is how fastjson reads an enum: by name in any case and without regard to "_" and "-", or by
// ordinal. A name that the enum does not have is "", Java's null.
func enumName(text []byte, names []string) string {
	if len(text) == 1 && text[0] >= '0' && int(text[0]-'0') < len(names) {
		return names[text[0]-'0']
	}
	for _, n := range names {
		if enumEqual(string(text), n) {
			return n
		}
	}
	return ""
}

func enumEqual(a, b string) bool {
	i, j := 0, 0
	for {
		for i < len(a) && (a[i] == '_' || a[i] == '-') {
			i++
		}
		for j < len(b) && (b[j] == '_' || b[j] == '-') {
			j++
		}
		if i == len(a) || j == len(b) {
			return i == len(a) && j == len(b)
		}
		if lowerASCII(a[i]) != lowerASCII(b[j]) {
			return false
		}
		i++
		j++
	}
}

func lowerASCII(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
