package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxFrameBytes is the largest frame either side accepts, the 4-byte length field included (Java
// NettyDecoder, system property com.rocketmq.remoting.frameMaxLength).
const MaxFrameBytes = 16 << 20

// MaxFields is the most extFields a header may have; no client sends more than some thirty. A Command keeps room for
// as many as it ever had, 56 bytes each.
const MaxFields = 4096

// frameFixedBytes is the length field and the header word: what has to be there before a frame can be judged.
const frameFixedBytes = 8

// SerializeType is the encoding of a frame's header: the top byte of the header word.
type SerializeType uint8

// The two header encodings (Java SerializeType).
const (
	SerializeJSON     SerializeType = 0
	SerializeROCKETMQ SerializeType = 1
)

// String is Java's spelling.
func (t SerializeType) String() string {
	if t == SerializeROCKETMQ {
		return "ROCKETMQ"
	}
	return "JSON"
}

// ErrMalformed marks bytes that are no frame or no header. The connection they came from is closed: nothing
// that follows them can be trusted.
var ErrMalformed = errors.New("codec: malformed frame")

// Frame is one remoting frame. All slices alias the buffer it was split from and live as long as that does.
type Frame struct {
	Type   SerializeType
	Header []byte
	Body   []byte
}

// SplitFrame takes the first frame off buf without copying. n is the frame's length in buf; n = 0 without an
// error means that the frame is not complete yet. need is then how many bytes it takes in all, as far as
// known (at least 8). A length that no frame can have is ErrMalformed as soon as it is seen, before anything
// is allocated for it.
func SplitFrame(buf []byte, maxFrameBytes int) (f Frame, n, need int, err error) {
	if len(buf) < 4 {
		return f, 0, frameFixedBytes, nil
	}
	length := int(int32(binary.BigEndian.Uint32(buf)))
	if length < 4 || length > maxFrameBytes-4 {
		return f, 0, 0, fmt.Errorf("%w: length %d not in [4, %d]", ErrMalformed, length, maxFrameBytes-4)
	}
	if len(buf) < frameFixedBytes {
		return f, 0, 4 + length, nil
	}
	word := binary.BigEndian.Uint32(buf[4:])
	headerLen := int(word & 0xFFFFFF)
	f.Type = SerializeType(word >> 24)
	if f.Type > SerializeROCKETMQ {
		return f, 0, 0, fmt.Errorf("%w: unknown serialize type %d", ErrMalformed, f.Type)
	}
	if headerLen > length-4 {
		return f, 0, 0, fmt.Errorf("%w: header of %d bytes in a frame of %d", ErrMalformed, headerLen, length)
	}
	if len(buf) < 4+length {
		return f, 0, 4 + length, nil
	}
	f.Header = buf[frameFixedBytes : frameFixedBytes+headerLen : frameFixedBytes+headerLen]
	f.Body = buf[frameFixedBytes+headerLen : 4+length : 4+length]
	return f, 4 + length, 0, nil
}

// beginFrame reserves the length and header words at the end of dst; the header follows at len(result).
func beginFrame(dst []byte) (out []byte, start int) {
	return append(dst, 0, 0, 0, 0, 0, 0, 0, 0), len(dst)
}

// endHeader fills the two words once the header stands; bodyLen bytes of body follow, in dst or elsewhere.
func endHeader(dst []byte, start int, t SerializeType, bodyLen int) []byte {
	headerLen := len(dst) - start - frameFixedBytes
	binary.BigEndian.PutUint32(dst[start:], uint32(4+headerLen+bodyLen))
	binary.BigEndian.PutUint32(dst[start+4:], uint32(t)<<24|uint32(headerLen))
	return dst
}
