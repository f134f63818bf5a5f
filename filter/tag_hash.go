package filter

import "unicode/utf8"

// TagHash is the code of a tag in a ConsumeQueue: Java's String.hashCode, 31*h + unit over the UTF-16
// units of the text, in int32 with wrap-around. Malformed UTF-8 counts as Java decodes it, see
// TagHashBytes.
func TagHash(tag string) int32 {
	var h int32
	for i := 0; i < len(tag); i++ {
		if c := tag[i]; c < utf8.RuneSelf {
			h = 31*h + int32(c)
			continue
		}
		return hashWide(h, tag[i:])
	}
	return h
}

// TagHashBytes is TagHash of the bytes of a stored property, without making a string. Malformed sequences
// are replaced by U+FFFD as Java's UTF-8 decoder does: one for the longest prefix that could have started
// a character.
func TagHashBytes(tag []byte) int32 {
	var h int32
	for i := 0; i < len(tag); i++ {
		if c := tag[i]; c < utf8.RuneSelf {
			h = 31*h + int32(c)
			continue
		}
		return hashWide(h, tag[i:])
	}
	return h
}

// TagHashGo is the code that Apache's Go client computes: the same formula over the UTF-8 bytes. It
// equals TagHash for ASCII. The client puts these codes into the codeSet of its heartbeats, so a broker
// that compares them with a ConsumeQueue never finds a tag outside ASCII: build the codes from the tag
// text instead (ParseTags).
func TagHashGo(tag string) int32 {
	var h int32
	for i := 0; i < len(tag); i++ {
		h = 31*h + int32(tag[i])
	}
	return h
}

// hashWide goes on with hash h over text that is not all ASCII.
func hashWide[T string | []byte](h int32, text T) int32 {
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			h = 31*h + int32(c)
			i++
			continue
		}
		// At most four bytes; the conversion stays on the stack.
		r, size := decodeLikeJava([]byte(text[i:min(i+utf8.UTFMax, len(text))]))
		if r > 0xFFFF {
			r -= 0x10000
			h = 31*h + (0xD800 + r>>10)
			r = 0xDC00 + r&0x3FF
		}
		h = 31*h + r
		i += size
	}
	return h
}

// decodeLikeJava decodes the first character of p, which is not empty and does not start with ASCII. For
// malformed text it answers U+FFFD and the number of bytes that Java's decoder consumes for it.
func decodeLikeJava(p []byte) (r rune, size int) {
	r, size = utf8.DecodeRune(p)
	if r != utf8.RuneError || size > 1 {
		return r, size
	}
	lo, hi := byte(0x80), byte(0xBF)
	switch lead := p[0]; {
	case lead < 0xE0 || lead > 0xF4:
		return utf8.RuneError, 1
	case lead == 0xE0:
		lo = 0xA0
	case lead == 0xF0:
		lo = 0x90
	case lead == 0xF4:
		hi = 0x8F
	}
	if len(p) < 2 || p[1] < lo || p[1] > hi {
		return utf8.RuneError, 1
	}
	if len(p) < 3 || p[2]&0xC0 != 0x80 {
		return utf8.RuneError, 2
	}
	return utf8.RuneError, 3 // an encoded surrogate, or the start of four bytes
}
