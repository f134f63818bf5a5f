package codec

import (
	"unicode/utf16"
	"unicode/utf8"
)

// JavaHash is Java's String.hashCode: h = 31·h + c over UTF-16 units, wrapping at 32 bits. Each byte that is
// not UTF-8 counts as one U+FFFD.
func JavaHash(s string) int32 {
	var h int32
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return javaHashRunes(h, s[i:])
		}
		h = 31*h + int32(s[i])
	}
	return h
}

// JavaHashBytes is JavaHash of the string in b.
func JavaHashBytes(b []byte) int32 {
	var h int32
	for i, c := range b {
		if c >= utf8.RuneSelf {
			return javaHashRunes(h, string(b[i:]))
		}
		h = 31*h + int32(c)
	}
	return h
}

func javaHashRunes(h int32, s string) int32 {
	for _, r := range s {
		if r >= 0x10000 {
			hi, lo := utf16.EncodeRune(r)
			h = 31*h + hi
			r = lo
		}
		h = 31*h + r
	}
	return h
}

// TagsCode is what a ConsumeQueue entry keeps of a message's TAGS: the hash of the whole string as a signed
// 64-bit number, 0 without tags (Java MessageExtBrokerInner.tagsString2tagsCode).
func TagsCode(tags []byte) int64 { return int64(JavaHashBytes(tags)) }
