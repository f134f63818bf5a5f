package body

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/zlib"

	"skylark/codec"
	"skylark/codec/fastjson"
)

// MaxRegisterBytes is how large a register body may become when it is decompressed: some million topics. A
// longer one is ErrRegisterBody.
const MaxRegisterBytes = 256 << 20

// ErrRegisterBody marks a compressed register body that cannot be read.
var ErrRegisterBody = errors.New("body: bad compressed register body")

// RegisterBrokerBody is the body of REGISTER_BROKER (103).
type RegisterBrokerBody struct {
	FilterServerList            []string                              `json:"filterServerList"`
	TopicConfigSerializeWrapper TopicConfigAndMappingSerializeWrapper `json:"topicConfigSerializeWrapper"`
}

// DecodeRegisterBrokerBody reads the body of a register request from a broker of the given MQVersion: JSON,
// or with compressed a zlib stream. 5.x brokers compress and still say that they do not, so a body that
// starts as a zlib stream does is decompressed whatever compressed says. Brokers before Version3011 send a
// TopicConfigSerializeWrapper. An empty body is an empty one.
func DecodeRegisterBrokerBody(data []byte, compressed bool, version int) (*RegisterBrokerBody, error) {
	b := &RegisterBrokerBody{}
	switch {
	case len(data) == 0:
		return b, nil
	case version < codec.Version3011:
		return b, fastjson.Unmarshal(data, &b.TopicConfigSerializeWrapper)
	case compressed || data[0] == 0x78:
		return decodeRegisterStream(data, version)
	}
	return b, fastjson.Unmarshal(data, b)
}

// registerReader reads the length-prefixed parts of a compressed register body. left bounds what it may still
// give.
type registerReader struct {
	r    io.Reader
	left int
}

func (r *registerReader) int() (int, error) {
	var b [4]byte
	if r.left -= len(b); r.left < 0 { // counts too, or a stream of empty parts would never end
		return 0, fmt.Errorf("more than %d bytes", MaxRegisterBytes)
	}
	if _, err := io.ReadFull(r.r, b[:]); err != nil {
		return 0, err
	}
	return int(int32(binary.BigEndian.Uint32(b[:]))), nil
}

// part reads a length and so many bytes, without believing the length before the bytes are there.
func (r *registerReader) part() ([]byte, error) {
	n, err := r.int()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > r.left {
		return nil, fmt.Errorf("part of %d bytes, at most %d left", n, r.left)
	}
	r.left -= n
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, r.r, int64(n)); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func decodeRegisterStream(data []byte, version int) (*RegisterBrokerBody, error) {
	z, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRegisterBody, err)
	}
	defer z.Close()
	b := &RegisterBrokerBody{}
	if err := b.readStream(&registerReader{r: z, left: MaxRegisterBytes}, version); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRegisterBody, err)
	}
	return b, nil
}

func (b *RegisterBrokerBody) readStream(r *registerReader, version int) error {
	w := &b.TopicConfigSerializeWrapper
	part, err := r.part()
	if err != nil {
		return err
	}
	if err := fastjson.Unmarshal(part, &w.DataVersion); err != nil {
		return err
	}
	n, err := r.int()
	if err != nil {
		return err
	}
	w.TopicConfigTable = map[string]*TopicConfig{}
	for range n {
		if part, err = r.part(); err != nil {
			return err
		}
		c, err := ParseTopicLine(string(part))
		if err != nil {
			return err
		}
		w.TopicConfigTable[c.TopicName] = c
	}
	if part, err = r.part(); err != nil {
		return err
	}
	if err := fastjson.Unmarshal(part, &b.FilterServerList); err != nil {
		return err
	}
	if version < codec.Version500 {
		return nil
	}
	if n, err = r.int(); err != nil {
		return err
	}
	w.TopicQueueMappingInfoMap = map[string]*TopicQueueMappingInfo{}
	for range n {
		if part, err = r.part(); err != nil {
			return err
		}
		info := &TopicQueueMappingInfo{}
		if err := fastjson.Unmarshal(part, info); err != nil {
			return err
		}
		w.TopicQueueMappingInfoMap[info.Topic] = info
	}
	return nil
}

// EncodeCompressed is the body as a zlib stream, for a sender of the given MQVersion; topics in the order of
// their names.
func (b *RegisterBrokerBody) EncodeCompressed(version int) ([]byte, error) {
	var raw []byte
	part := func(p []byte) {
		raw = binary.BigEndian.AppendUint32(raw, uint32(len(p)))
		raw = append(raw, p...)
	}
	w := &b.TopicConfigSerializeWrapper
	text, err := fastjson.Marshal(w.DataVersion)
	if err != nil {
		return nil, err
	}
	part(text)
	raw = binary.BigEndian.AppendUint32(raw, uint32(len(w.TopicConfigTable)))
	for _, topic := range slices.Sorted(maps.Keys(w.TopicConfigTable)) {
		line, err := w.TopicConfigTable[topic].Line()
		if err != nil {
			return nil, err
		}
		part([]byte(line))
	}
	if text, err = fastjson.Marshal(b.FilterServerList); err != nil {
		return nil, err
	}
	part(text)
	if version >= codec.Version500 {
		raw = binary.BigEndian.AppendUint32(raw, uint32(len(w.TopicQueueMappingInfoMap)))
		for _, topic := range slices.Sorted(maps.Keys(w.TopicQueueMappingInfoMap)) {
			if text, err = fastjson.Marshal(w.TopicQueueMappingInfoMap[topic]); err != nil {
				return nil, err
			}
			part(text)
		}
	}
	var buf bytes.Buffer
	z, err := zlib.NewWriterLevel(&buf, zlib.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err = z.Write(raw); err == nil {
		err = z.Close()
	}
	return buf.Bytes(), err
}
