package codec

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// rocketmqFixedBytes is the binary header without remark and fields.
const rocketmqFixedBytes = 21

// decodeROCKETMQ reads the binary header (spec wire.md §3).
func (c *Command) decodeROCKETMQ(h []byte) error {
	if len(h) < rocketmqFixedBytes {
		return fmt.Errorf("%w: binary header of %d bytes, at least %d", ErrMalformed, len(h),
			rocketmqFixedBytes)
	}
	c.Code = int(int16(binary.BigEndian.Uint16(h)))
	c.Language = LanguageCode(h[2])
	c.Version = int(int16(binary.BigEndian.Uint16(h[3:])))
	c.Opaque = int32(binary.BigEndian.Uint32(h[5:]))
	c.Flag = int32(binary.BigEndian.Uint32(h[9:]))
	remarkLen := int(int32(binary.BigEndian.Uint32(h[13:])))
	rest := h[17:]
	if remarkLen < 0 || remarkLen > len(rest)-4 {
		return fmt.Errorf("%w: remark of %d bytes in %d", ErrMalformed, remarkLen, len(rest)-4)
	}
	if err := validText(rest[:remarkLen], "remark"); err != nil {
		return err
	}
	c.Remark = string(rest[:remarkLen])
	rest = rest[remarkLen:]
	extLen := int(int32(binary.BigEndian.Uint32(rest)))
	rest = rest[4:]
	if extLen < 0 || extLen > len(rest) {
		return fmt.Errorf("%w: extFields of %d bytes in %d", ErrMalformed, extLen, len(rest))
	}
	return c.decodeROCKETMQFields(rest[:extLen])
}

func (c *Command) decodeROCKETMQFields(b []byte) error {
	ascii := isASCII(b) // then so is every key and value, and none is checked again
	fields := c.Fields  // in a local: no store to the heap per field
	for len(b) > 0 {
		if len(b) < 2 {
			return fmt.Errorf("%w: extFields end inside a key length", ErrMalformed)
		}
		keyLen := int(int16(binary.BigEndian.Uint16(b)))
		b = b[2:]
		if keyLen < 0 || keyLen > len(b) {
			return fmt.Errorf("%w: key of %d bytes in %d", ErrMalformed, keyLen, len(b))
		}
		key := b[:keyLen:keyLen]
		b = b[keyLen:]
		if len(b) < 4 {
			return fmt.Errorf("%w: extFields end inside the value length of %q", ErrMalformed, key)
		}
		valueLen := int(int32(binary.BigEndian.Uint32(b)))
		b = b[4:]
		if valueLen < 0 || valueLen > len(b) {
			return fmt.Errorf("%w: value of %q with %d bytes in %d", ErrMalformed, key, valueLen, len(b))
		}
		value := b[:valueLen:valueLen]
		b = b[valueLen:]
		if !ascii && (!utf8.Valid(key) || !utf8.Valid(value)) {
			return fmt.Errorf("%w: field %q is not UTF-8", ErrMalformed, key)
		}
		if len(fields) == MaxFields {
			return fmt.Errorf("%w: more than %d extFields", ErrMalformed, MaxFields)
		}
		if keyLen > 0 && valueLen > 0 { // a zero length is Java's null
			fields = append(fields, Field{Key: key, Value: value})
		}
	}
	c.Fields = fields
	return nil
}

// isASCII tells whether no byte has its top bit set.
func isASCII(b []byte) bool {
	const highs = 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b)&highs != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (c *Command) appendROCKETMQ(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(c.Code))
	dst = append(dst, byte(c.Language))
	dst = binary.BigEndian.AppendUint16(dst, uint16(c.Version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.Opaque))
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.Flag))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(c.Remark)))
	dst = append(dst, c.Remark...)
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for i := range c.Fields {
		f := &c.Fields[i]
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(f.Key)))
		dst = append(dst, f.Key...)
		v := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		dst = f.AppendValue(dst)
		binary.BigEndian.PutUint32(dst[v:], uint32(len(dst)-v-4))
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}
