package codec

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Flag bits of a command (Java RemotingCommand: RPC_TYPE, RPC_ONEWAY).
const (
	FlagResponse int32 = 1 << 0
	FlagOneway   int32 = 1 << 1
)

// AnnouncedVersion is the MQVersion ordinal of V5_3_3 that every answer carries (spec wire.md §4).
const AnnouncedVersion = 479

// Field is one entry of a command's extFields. Decoded fields alias the frame.
type Field struct {
	Key   []byte
	Value []byte
	// Escaped tells that Value is JSON string content that still holds backslash escapes: use AppendValue.
	Escaped bool
}

// AppendValue appends the field's value, escapes resolved, to dst.
func (f *Field) AppendValue(dst []byte) []byte {
	if !f.Escaped {
		return append(dst, f.Value...)
	}
	return appendUnescaped(dst, f.Value)
}

// Text returns the value as a string, escapes resolved.
func (f *Field) Text() string {
	if !f.Escaped {
		return string(f.Value)
	}
	return string(appendUnescaped(nil, f.Value))
}

// text is the value without escapes: Value itself, or a copy appended to scratch, which grows as needed.
func (f *Field) text(scratch *[]byte) []byte {
	if !f.Escaped {
		return f.Value
	}
	at := len(*scratch)
	*scratch = appendUnescaped(*scratch, f.Value)
	return (*scratch)[at:len(*scratch):len(*scratch)]
}

// int32Into reads a decimal number; want is "int32" if there is none.
func (f *Field) int32Into(dst *int32) (want string) {
	v, ok := f.int()
	if !ok || v != int64(int32(v)) {
		return "int32"
	}
	*dst = int32(v)
	return ""
}

// int64Into reads a decimal number; want is "int64" if there is none.
func (f *Field) int64Into(dst *int64) (want string) {
	v, ok := f.int()
	if !ok {
		return "int64"
	}
	*dst = v
	return ""
}

func (f *Field) int() (int64, bool) {
	if f.Escaped {
		return parseInt(appendUnescaped(nil, f.Value))
	}
	return parseInt(f.Value)
}

// isTrue is Java's Boolean.parseBoolean.
func (f *Field) isTrue() bool {
	if f.Escaped {
		return strings.EqualFold(f.Text(), "true")
	}
	return len(f.Value) == 4 && strings.EqualFold(string(f.Value), "true")
}

// Command is a remoting command, request or response (Java RemotingCommand). A Command is reused for many
// frames: Decode resets it and keeps the capacity of Fields. Decoded slices alias the frame; whoever needs
// them longer calls Clone.
type Command struct {
	Code     int // request or response code
	Language LanguageCode
	Version  int // MQVersion ordinal of the sender
	Opaque   int32
	Flag     int32
	Remark   string
	Type     SerializeType // of the frame it came in; answers use the same
	Fields   []Field       // extFields in wire order, duplicates kept (the last wins)
	Body     []byte        // nil or empty when there is none
}

// IsResponse tells whether this is an answer to a request of ours.
func (c *Command) IsResponse() bool { return c.Flag&FlagResponse != 0 }

// IsOneway tells that the sender wants no answer, not even an error.
func (c *Command) IsOneway() bool { return c.Flag&FlagOneway != 0 }

// Decode reads a frame into c. The error is ErrMalformed; a header that parses but lacks fields is no error
// here.
func (c *Command) Decode(f Frame) error {
	*c = Command{Type: f.Type, Fields: c.Fields[:0], Body: f.Body}
	if f.Type == SerializeROCKETMQ {
		return c.decodeROCKETMQ(f.Header)
	}
	return c.decodeJSON(f.Header)
}

// Lookup returns the last field of that name, nil when there is none.
func (c *Command) Lookup(key string) *Field {
	for i := len(c.Fields) - 1; i >= 0; i-- {
		if string(c.Fields[i].Key) == key {
			return &c.Fields[i]
		}
	}
	return nil
}

// Get returns a field's value as a string, "" when it is absent.
func (c *Command) Get(key string) string {
	if f := c.Lookup(key); f != nil {
		return f.Text()
	}
	return ""
}

// Set replaces or adds a field.
func (c *Command) Set(key, value string) {
	if f := c.Lookup(key); f != nil {
		f.Value, f.Escaped = []byte(value), false
		return
	}
	c.Fields = append(c.Fields, Field{Key: []byte(key), Value: []byte(value)})
}

// SetInt is Set of a decimal number.
func (c *Command) SetInt(key string, value int64) { c.Set(key, strconv.FormatInt(value, 10)) }

// SetBool is Set of "true" or "false".
func (c *Command) SetBool(key string, value bool) { c.Set(key, strconv.FormatBool(value)) }

// Clone copies everything that aliases a read buffer.
func (c *Command) Clone() *Command {
	d := *c
	d.Fields = make([]Field, len(c.Fields))
	n := len(c.Body)
	for i := range c.Fields {
		n += len(c.Fields[i].Key) + len(c.Fields[i].Value)
	}
	buf := make([]byte, 0, n)
	take := func(b []byte) []byte {
		at := len(buf)
		buf = append(buf, b...)
		return buf[at:len(buf):len(buf)]
	}
	for i, f := range c.Fields {
		d.Fields[i] = Field{Key: take(f.Key), Value: take(f.Value), Escaped: f.Escaped}
	}
	if len(c.Body) > 0 {
		d.Body = take(c.Body)
	}
	return &d
}

// NewRequest makes a request of ours with the version and language we announce. opaque is set by the client.
func NewRequest(code int) *Command {
	return &Command{Code: code, Language: LanguageGo, Version: AnnouncedVersion}
}

// NewResponse makes the answer to req: its opaque and header encoding, our version.
func NewResponse(req *Command, code int, remark string) *Command {
	return &Command{Code: code, Remark: remark, Language: LanguageJava, Version: AnnouncedVersion,
		Opaque: req.Opaque, Flag: FlagResponse, Type: req.Type}
}

// AppendTo appends the whole frame to dst: length, header word, header in encoding c.Type, body.
func (c *Command) AppendTo(dst []byte) []byte {
	dst = c.AppendHeader(dst, len(c.Body))
	return append(dst, c.Body...)
}

// AppendHeader appends the frame up to its body, which has bodyLen bytes and follows from elsewhere
// (zero-copy).
func (c *Command) AppendHeader(dst []byte, bodyLen int) []byte {
	dst, start := beginFrame(dst)
	if c.Type == SerializeROCKETMQ {
		dst = c.appendROCKETMQ(dst)
	} else {
		dst = c.appendJSON(dst)
	}
	return endHeader(dst, start, c.Type, bodyLen)
}

// String is for logs: code, opaque and the fields, values cut at 64 bytes.
func (c *Command) String() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "code=%d opaque=%d flag=%d version=%d", c.Code, c.Opaque, c.Flag, c.Version)
	if c.Remark != "" {
		fmt.Fprintf(&b, " remark=%q", c.Remark)
	}
	for i := range c.Fields {
		v := c.Fields[i].Text()
		if len(v) > 64 {
			v = v[:64] + "…"
		}
		fmt.Fprintf(&b, " %s=%q", c.Fields[i].Key, v)
	}
	fmt.Fprintf(&b, " body=%d bytes", len(c.Body))
	return b.String()
}

// validText refuses header bytes that are not UTF-8: they cannot come from a working client.
func validText(b []byte, what string) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("%w: %s is not UTF-8", ErrMalformed, what)
	}
	return nil
}
