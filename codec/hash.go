package codec

import (
	"encoding/binary"
	"unicode/utf8"
)

// JavaHash is Java's String.hashCode: h = 31·h + unit over the UTF-16 units of the text, wrapping at 32 bits. Malformed
// UTF-8 counts as Java's decoder reads it: one U+FFFD for the longest prefix that could have started a character.
func JavaHash(s string) int32 {
	var h int32
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return hashWide(h, s[i:])
		}
		h = 31*h + int32(s[i])
	}
	return h
}

// JavaHashBytes is JavaHash of the string in b, without making a string.
func JavaHashBytes(b []byte) int32 { return JavaHashOn(0, b) }

// JavaHashOn goes on with the hash h of what stands before b: the hash of a text that is not in one piece. A character must
// not be cut between the pieces.
func JavaHashOn(h int32, b []byte) int32 {
	const p2, p3, p4 = 31 * 31, 31 * 31 * 31, 31 * 31 * 31 * 31
	for len(b) >= 4 { // one multiplication waits for the other: four characters at a time
		w := binary.LittleEndian.Uint32(b)
		if w&0x80808080 != 0 {
			return hashWide(h, b)
		}
		h = p4*h + p3*int32(w&0xFF) + p2*int32(w>>8&0xFF) + 31*int32(w>>16&0xFF) + int32(w>>24)
		b = b[4:]
	}
	for i, c := range b {
		if c >= utf8.RuneSelf {
			return hashWide(h, b[i:])
		}
		h = 31*h + int32(c)
	}
	return h
}

// TagsCode is what a ConsumeQueue entry keeps of a message's TAGS: the hash of the whole string as a signed
// 64-bit number, 0 without tags (Java MessageExtBrokerInner.tagsString2tagsCode).
func TagsCode(tags []byte) int64 { return int64(JavaHashBytes(tags)) }

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
