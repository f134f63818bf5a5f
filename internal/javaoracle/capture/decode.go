package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
)

// command is a decoded frame.
type command struct {
	binary   bool // ROCKETMQ header encoding instead of JSON
	code     int
	language string
	version  int
	opaque   int32
	flag     int32
	remark   *string
	ext      map[string]string
	header   []byte
	body     []byte
}

func (c *command) isResponse() bool { return c.flag&1 != 0 }
func (c *command) isOneway() bool   { return c.flag&2 != 0 }

// extKeys returns the names of the header fields in order.
func (c *command) extKeys() []string {
	keys := make([]string, 0, len(c.ext))
	for k := range c.ext {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

var languages = []string{"JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO",
	"PHP", "OMS", "RUST", "NODE_JS"}

var errShort = errors.New("frame ends early")

// decode reads a whole frame, length field included.
func decode(frame []byte) (*command, error) {
	if len(frame) < 8 {
		return nil, errShort
	}
	meta := binary.BigEndian.Uint32(frame[4:])
	kind, size := meta>>24, int(meta&0xFFFFFF)
	if 8+size > len(frame) {
		return nil, errShort
	}
	cmd := &command{header: frame[8 : 8+size], body: frame[8+size:]}
	switch kind {
	case 0:
		return cmd, cmd.decodeJSON()
	case 1:
		cmd.binary = true
		return cmd, cmd.decodeBinary()
	}
	return nil, fmt.Errorf("serialize type %d", kind)
}

func (c *command) decodeJSON() error {
	var h struct {
		Code     int               `json:"code"`
		Language string            `json:"language"`
		Version  int               `json:"version"`
		Opaque   int32             `json:"opaque"`
		Flag     int32             `json:"flag"`
		Remark   *string           `json:"remark"`
		Ext      map[string]string `json:"extFields"`
	}
	if err := json.Unmarshal(c.header, &h); err != nil {
		return err
	}
	c.code, c.language, c.version, c.opaque, c.flag = h.Code, h.Language, h.Version, h.Opaque, h.Flag
	c.remark, c.ext = h.Remark, h.Ext
	return nil
}

func (c *command) decodeBinary() error {
	h := c.header
	if len(h) < 21 {
		return errShort
	}
	c.code = int(int16(binary.BigEndian.Uint16(h)))
	if int(h[2]) < len(languages) {
		c.language = languages[h[2]]
	}
	c.version = int(binary.BigEndian.Uint16(h[3:]))
	c.opaque = int32(binary.BigEndian.Uint32(h[5:]))
	c.flag = int32(binary.BigEndian.Uint32(h[9:]))
	remark, rest, err := lengthed(h[13:], 4)
	if err != nil {
		return err
	}
	if len(remark) > 0 {
		s := string(remark)
		c.remark = &s
	}
	block, _, err := lengthed(rest, 4)
	if err != nil {
		return err
	}
	c.ext = map[string]string{}
	for len(block) > 0 {
		var key, value []byte
		if key, block, err = lengthed(block, 2); err != nil {
			return err
		}
		if value, block, err = lengthed(block, 4); err != nil {
			return err
		}
		c.ext[string(key)] = string(value)
	}
	return nil
}

// lengthed splits off a field that follows its own length of width bytes.
func lengthed(b []byte, width int) (field, rest []byte, err error) {
	if len(b) < width {
		return nil, nil, errShort
	}
	n := 0
	for _, x := range b[:width] {
		n = n<<8 | int(x)
	}
	if n > len(b)-width {
		return nil, nil, errShort
	}
	return b[width : width+n], b[width+n:], nil
}

// record is a message as brokers store it and as pull answers carry it.
type record struct {
	size       int
	magic      uint32
	crc        uint32
	queueID    uint32
	flag       uint32
	queueOff   int64
	phyOff     int64
	sysFlag    uint32
	bornMillis int64
	bornHost   string
	storeMs    int64
	storeHost  string
	reconsume  uint32
	prepared   int64
	body       []byte
	topic      string
	properties []byte
	raw        []byte
}

const (
	magicV1 = 0xDAA320A7
	magicV2 = 0xDAA320AB
)

// splitRecords cuts messages that lie back to back; it stops at what is not a message.
func splitRecords(b []byte) []record {
	var all []record
	for len(b) >= 91 {
		r, err := decodeRecord(b)
		if err != nil {
			break
		}
		all = append(all, r)
		b = b[r.size:]
	}
	return all
}

func decodeRecord(b []byte) (record, error) {
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	i64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	r := record{size: int(u32(0)), magic: u32(4)}
	if r.size < 91 || r.size > len(b) || (r.magic != magicV1 && r.magic != magicV2) {
		return r, errShort
	}
	r.raw = b[:r.size]
	r.crc, r.queueID, r.flag, r.sysFlag = u32(8), u32(12), u32(16), u32(36)
	r.queueOff, r.phyOff = i64(20), i64(28)
	r.bornMillis = i64(40)
	at := 48
	r.bornHost, at = host(b, at, r.sysFlag&0x10 != 0)
	r.storeMs = i64(at)
	r.storeHost, at = host(b, at+8, r.sysFlag&0x20 != 0)
	r.reconsume, r.prepared = u32(at), i64(at+4)
	body, rest, err := lengthed(r.raw[at+12:], 4)
	if err != nil {
		return r, err
	}
	topicWidth := 1
	if r.magic == magicV2 {
		topicWidth = 2
	}
	topic, rest, err := lengthed(rest, topicWidth)
	if err != nil {
		return r, err
	}
	props, rest, err := lengthed(rest, 2)
	if err != nil {
		return r, err
	}
	if len(rest) != 0 {
		return r, fmt.Errorf("%d bytes after the properties", len(rest))
	}
	r.body, r.topic, r.properties = body, string(topic), props
	return r, nil
}

func host(b []byte, at int, v6 bool) (string, int) {
	width := 4
	if v6 {
		width = 16
	}
	port := binary.BigEndian.Uint32(b[at+width:])
	return fmt.Sprintf("%s:%d", ipText(b[at:at+width]), port), at + width + 4
}

// splitProperties decodes name 0x01 value 0x02 pairs in the order they stand.
func splitProperties(b []byte) [][2]string {
	var all [][2]string
	for _, pair := range bytes.Split(b, []byte{2}) {
		name, value, ok := bytes.Cut(pair, []byte{1})
		if ok {
			all = append(all, [2]string{string(name), string(value)})
		}
	}
	return all
}
