package client

import (
	"bytes"
	"encoding/binary"

	"skylark/codec"
)

// Answer is what a sender with many requests under way has to know of an answer.
type Answer struct {
	Code   int
	Opaque int32
	Flag   int32
}

// IsResponse tells an answer from a request that the peer makes.
func (a Answer) IsResponse() bool { return a.Flag&codec.FlagResponse != 0 }

// PeekAnswer reads the three numbers of a frame's header, without looking at its fields if the members have
// the order in which Java and Skylark write them: code, extFields, flag, language, opaque. cmd is used for
// other headers.
func PeekAnswer(f codec.Frame, cmd *codec.Command) (Answer, error) {
	h := f.Header
	if f.Type == codec.SerializeROCKETMQ && len(h) >= 13 {
		return Answer{
			Code:   int(int16(binary.BigEndian.Uint16(h))),
			Opaque: int32(binary.BigEndian.Uint32(h[5:])),
			Flag:   int32(binary.BigEndian.Uint32(h[9:])),
		}, nil
	}
	if first := `{"code":`; len(h) > len(first) && string(h[:len(first)]) == first {
		code, ok := digits(h[len(first):])
		opaque, at := lastMember(h, `"opaque":`, 4)
		flag, from := lastMember(h[:max(at, 0)], `"flag":`, 1)
		if ok && from > 0 {
			return Answer{Code: int(code), Opaque: opaque, Flag: flag}, nil
		}
	}
	if err := cmd.Decode(f); err != nil {
		return Answer{}, err
	}
	return Answer{Code: cmd.Code, Opaque: cmd.Opaque, Flag: cmd.Flag}, nil
}

// lastMember finds the last member of that name with a number, by a letter of it that is rare; at is -1 if
// what stands there is something else. The text sought can stand nowhere but in front of a value: inside of a
// string its quotes would be escaped.
func lastMember(h []byte, member string, letter int) (v int32, at int) {
	at = bytes.LastIndexByte(h, member[letter]) - letter
	if at < 0 || at+len(member) > len(h) || string(h[at:at+len(member)]) != member {
		return 0, -1
	}
	v, ok := digits(h[at+len(member):])
	if !ok {
		return 0, -1
	}
	return v, at
}

// digits reads a number of at most nine digits, or ten up to 2147483647, that something other follows.
func digits(b []byte) (v int32, ok bool) {
	n := int64(0)
	for i, c := range b {
		if c-'0' > 9 {
			return int32(n), i > 0 && i <= 10 && n == int64(int32(n)) && (c == ',' || c == '}')
		}
		if n = n*10 + int64(c-'0'); i > 10 {
			return 0, false
		}
	}
	return 0, false
}
