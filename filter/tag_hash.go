package filter

import "skylark/codec"

// TagHash is the code of a tag in a ConsumeQueue, Java's String.hashCode: see codec.JavaHash.
func TagHash(tag string) int32 { return codec.JavaHash(tag) }

// TagHashBytes is TagHash of the bytes of a stored property, without making a string.
func TagHashBytes(tag []byte) int32 { return codec.JavaHashBytes(tag) }

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
