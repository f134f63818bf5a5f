package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// batchEntryFixedBytes is an entry of a batch without body and properties: total size, magic, body CRC, flag,
// body length, properties length.
const batchEntryFixedBytes = 5*4 + 2

// ErrBadBatch marks a batch body whose lengths do not fit into it (case B05 c). The whole batch is refused.
var ErrBadBatch = errors.New("codec: malformed batch body")

// BatchEntry is one message of the body of a SEND_BATCH_MESSAGE request, or of a stored inner batch. Its
// slices alias the body. Topic, queue, sysFlag and born timestamp are those of the request.
type BatchEntry struct {
	Flag       int32
	Body       []byte
	Properties []byte
}

// NextBatchEntry takes the first entry off a batch body (spec messages.md §4):
//
//	totalSize:4 | magic:4 | bodyCRC:4 | flag:4 | bodyLen:4 | body | propsLen:2 | props
//
// The first three are not looked at, as in Java: clients write zeros there, and the lengths that count are
// bodyLen and propsLen. Negative or too large ones are ErrBadBatch. At the end of the body there is nothing
// to take: call it only while bytes are left.
func NextBatchEntry(body []byte) (e BatchEntry, rest []byte, err error) {
	if len(body) < batchEntryFixedBytes {
		return e, nil, fmt.Errorf("%w: %d bytes left, an entry has at least %d", ErrBadBatch, len(body),
			batchEntryFixedBytes)
	}
	flag := int32(binary.BigEndian.Uint32(body[12:]))
	n := int(int32(binary.BigEndian.Uint32(body[16:])))
	rest = body[20:]
	if n < 0 || n > len(rest)-2 {
		return e, nil, fmt.Errorf("%w: message body of %d bytes in %d", ErrBadBatch, n, len(rest)-2)
	}
	e.Body, rest = rest[:n:n], rest[n:]
	n = int(int16(binary.BigEndian.Uint16(rest)))
	rest = rest[2:]
	if n < 0 || n > len(rest) {
		return BatchEntry{}, nil, fmt.Errorf("%w: properties of %d bytes in %d", ErrBadBatch, n, len(rest))
	}
	e.Properties, rest = rest[:n:n], rest[n:]
	e.Flag = flag
	return e, rest, nil
}

// EachBatchEntry calls fn for every entry of a batch body, i counting from 0, until fn or the body fails. An
// empty body has no entries and is no error. To refuse a bad batch before anything of it is stored, call
// CountBatch first.
func EachBatchEntry(body []byte, fn func(i int, e BatchEntry) error) error {
	for i := 0; len(body) > 0; i++ {
		e, rest, err := NextBatchEntry(body)
		if err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		if err := fn(i, e); err != nil {
			return err
		}
		body = rest
	}
	return nil
}

// CountBatch counts the entries of a batch body and checks them all.
func CountBatch(body []byte) (n int, err error) {
	err = EachBatchEntry(body, func(int, BatchEntry) error { n++; return nil })
	return n, err
}

// AppendBatchEntry appends e as a client encodes it (Java MessageDecoder.encodeMessage): magic and CRC are
// zero. Properties over MaxPropertiesBytes are ErrPropertiesTooLong.
func AppendBatchEntry(dst []byte, e BatchEntry) ([]byte, error) {
	if len(e.Properties) > MaxPropertiesBytes {
		return dst, fmt.Errorf("%w: %d bytes, at most %d", ErrPropertiesTooLong, len(e.Properties),
			MaxPropertiesBytes)
	}
	if len(e.Body) > MaxFrameBytes {
		return dst, fmt.Errorf("%w: %d bytes", ErrBodyTooLong, len(e.Body))
	}
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(batchEntryFixedBytes+len(e.Body)+len(e.Properties)))
	dst = be.AppendUint64(dst, 0)
	dst = be.AppendUint32(dst, uint32(e.Flag))
	dst = be.AppendUint32(dst, uint32(len(e.Body)))
	dst = append(dst, e.Body...)
	dst = be.AppendUint16(dst, uint16(len(e.Properties)))
	return append(dst, e.Properties...), nil
}

// IsInnerBatch tells that the message is one record for several: its body is a batch body, it occupies as
// many queue offsets as its property INNER_NUM says, from INNER_BASE on (spec messages.md §4).
func (r *Record) IsInnerBatch() bool { return r.SysFlag&SysFlagInnerBatch != 0 }
