package client

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"skylark/codec"
)

// FirstOpaque and OpaqueSpan bound the opaques that a SendTemplate takes: numbers of ten digits, so that a
// header never changes its length.
const (
	FirstOpaque int32 = 1_000_000_000
	OpaqueSpan  int32 = 1 << 30
)

// keyDigits is the width of the number in a key that a template writes.
const keyDigits = 16

// TemplateOptions describe the sends of one queue that differ in little: opaque, born timestamp, unique key,
// keys, body.
type TemplateOptions struct {
	Type   codec.SerializeType
	Code   int // ReqSendMessageV2, ReqSendMessage or ReqSendBatchMessage; the latter sets Header.Batch
	Oneway bool
	// Header is what stays the same, with the defaults of NewSend. To its Properties are added PropUniqKey if
	// UniqKeys is set, and PropKeys if Keys > 0.
	Header   codec.SendMessageHeader
	UniqKeys *codec.UniqueIDGenerator
	Keys     int // of each message, "<16 hex digits>-<index>"
	// Property is the name of one more property whose value of PropertyBytes characters each send gives; "":
	// none.
	Property      string
	PropertyBytes int
}

// SendTemplate is a send request's frame, encoded once. A send copies it and overwrites the few places that
// change: about 60 ns and no allocation, where encoding each header costs ten times as much.
//
// The places are found by encoding the header twice with other values and comparing, which needs no knowledge
// of either encoding.
type SendTemplate struct {
	head   []byte
	opaque hole
	born   hole
	uniq   hole // empty: none
	prop   hole // empty: none
	keys   []hole
	typ    codec.SerializeType
	ids    *codec.UniqueIDGenerator
	body   int // headers' fixed part of the length
}

// hole is a place in the frame: from, to.
type hole struct{ from, to int }

// probe is a set of values that differ from those of the other one in every byte, in each encoding.
type probe struct {
	opaque int32
	born   int64
	uniq   byte
	key    byte
	prop   byte
}

var probes = [2]probe{
	{opaque: FirstOpaque, born: 1_000_000_000_000, uniq: '0', key: '0', prop: '0'},
	{opaque: 2_111_111_111, born: 2_111_111_111_111, uniq: '1', key: '1', prop: '1'},
}

// NewSendTemplate encodes the frame.
func NewSendTemplate(o TemplateOptions) (*SendTemplate, error) {
	t := &SendTemplate{typ: o.Type, ids: o.UniqKeys}
	base := probes[0]
	t.head = o.frame(base)
	find := func(what string, change func(p *probe), width int) ([]hole, error) {
		p := base
		change(&p)
		other := o.frame(p)
		if len(other) != len(t.head) {
			return nil, fmt.Errorf("client: send template: %s changes the length", what)
		}
		holes := differences(t.head, other)
		for _, h := range holes {
			if h.to-h.from != width {
				return nil, fmt.Errorf("client: send template: %s has %d bytes, not %d", what, h.to-h.from, width)
			}
		}
		return holes, nil
	}
	one := func(what string, dst *hole, change func(p *probe), width int) error {
		holes, err := find(what, change, width)
		if err == nil && len(holes) != 1 {
			err = fmt.Errorf("client: send template: %s occurs %d times", what, len(holes))
		}
		if err == nil {
			*dst = holes[0]
		}
		return err
	}
	opaqueWidth := 10
	if o.Type == codec.SerializeROCKETMQ {
		opaqueWidth = 4
	}
	err := one("opaque", &t.opaque, func(p *probe) { p.opaque = probes[1].opaque }, opaqueWidth)
	if err == nil {
		err = one("born timestamp", &t.born, func(p *probe) { p.born = probes[1].born }, 13)
	}
	if err == nil && o.UniqKeys != nil {
		err = one("unique key", &t.uniq, func(p *probe) { p.uniq = probes[1].uniq }, len(o.UniqKeys.Next()))
	}
	if err == nil && o.Property != "" {
		err = one(o.Property, &t.prop, func(p *probe) { p.prop = probes[1].prop }, o.PropertyBytes)
	}
	if err == nil && o.Keys > 0 {
		t.keys, err = find("key", func(p *probe) { p.key = probes[1].key }, keyDigits)
	}
	if err != nil {
		return nil, err
	}
	t.body = len(t.head) - 4
	return t, nil
}

// frame encodes the header with the values of p.
func (o *TemplateOptions) frame(p probe) []byte {
	code := o.Code
	if code == 0 {
		code = codec.ReqSendMessageV2
	}
	req := codec.NewRequest(code)
	req.Type, req.Opaque = o.Type, p.opaque
	if o.Oneway {
		req.Flag = codec.FlagOneway
	}
	h := o.Header
	sendDefaults(&h)
	h.BornTimestamp = p.born
	h.Batch = h.Batch || code == codec.ReqSendBatchMessage
	props := h.Properties.AppendValue(nil)
	if o.UniqKeys != nil {
		props = codec.AppendProperty(props, codec.PropUniqKey, strings.Repeat(string(p.uniq), len(o.UniqKeys.Next())))
	}
	props = codec.AppendProperty(props, codec.PropKeys, keys(o.Keys, p.key))
	if o.Property != "" {
		props = codec.AppendProperty(props, o.Property, strings.Repeat(string(p.prop), o.PropertyBytes))
	}
	h.Properties = codec.Field{Value: props}
	h.Encode(req)
	return req.AppendTo(nil)
}

// keys is n keys with 16 digits each.
func keys(n int, digit byte) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(codec.KeySeparator)
		}
		b.WriteString(strings.Repeat(string(digit), keyDigits))
		b.WriteString("-" + strconv.Itoa(i))
	}
	return b.String()
}

// differences are the runs of bytes in which a and b, of one length, differ.
func differences(a, b []byte) (out []hole) {
	for i := 0; i < len(a); i++ {
		if a[i] == b[i] {
			continue
		}
		h := hole{i, i + 1}
		for h.to < len(a) && a[h.to] != b[h.to] {
			h.to++
		}
		out = append(out, h)
		i = h.to
	}
	return out
}

// HeadBytes is the length of a frame without its body.
func (t *SendTemplate) HeadBytes() int { return len(t.head) }

// Send is what one send differs in.
type Send struct {
	Opaque     int32 // FirstOpaque + n, with n below OpaqueSpan
	BornMillis int64
	Key        uint64 // the number in the message's keys
	BodyBytes  int    // the body follows the header
	Property   []byte // value of the template's own property: plain characters, as many as it has room for
}

// AppendHead appends the frame up to its body.
func (t *SendTemplate) AppendHead(dst []byte, s Send) []byte {
	at := len(dst)
	dst = append(dst, t.head...)
	f := dst[at:]
	binary.BigEndian.PutUint32(f, uint32(t.body+s.BodyBytes))
	if t.typ == codec.SerializeROCKETMQ {
		binary.BigEndian.PutUint32(f[t.opaque.from:], uint32(s.Opaque))
	} else {
		putDecimal(f[t.opaque.from:t.opaque.to], int64(s.Opaque))
	}
	putDecimal(f[t.born.from:t.born.to], s.BornMillis)
	if t.ids != nil {
		t.ids.Append(f[t.uniq.from:t.uniq.from])
	}
	copy(f[t.prop.from:t.prop.to], s.Property)
	for _, h := range t.keys {
		putHex(f[h.from:h.to], s.Key)
	}
	return dst
}

// putDecimal writes the lowest len(b) digits of v.
func putDecimal(b []byte, v int64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + v%10)
		v /= 10
	}
}

func putHex(b []byte, v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = "0123456789ABCDEF"[v&15]
		v >>= 4
	}
}
