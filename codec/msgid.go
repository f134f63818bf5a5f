package codec

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
)

// ErrBadMessageID marks a text that is no offset or unique message id.
var ErrBadMessageID = errors.New("codec: malformed message id")

// Lengths of both kinds of message id in characters, for IPv4 and IPv6 hosts.
const (
	MessageIDChars   = 32
	MessageIDCharsV6 = 56
)

// AppendOffsetMsgID appends the offset message id (Java MessageDecoder.createMessageId, "offsetMsgId"): store
// host and physical offset in upper-case hex, 32 or 56 characters.
func AppendOffsetMsgID(dst []byte, host netip.AddrPort, p PhyOffset) []byte {
	switch a := host.Addr(); {
	case isIPv6(a):
		b := a.As16()
		for _, c := range b {
			dst = appendHexByte(dst, c)
		}
	case a.IsValid():
		b := a.Unmap().As4()
		dst = appendHex(dst, uint64(binary.BigEndian.Uint32(b[:])), 8)
	default:
		dst = append(dst, "00000000"...)
	}
	dst = appendHex(dst, uint64(host.Port()), 8)
	return appendHex(dst, uint64(p), 16)
}

// ParseOffsetMsgID is the reverse of AppendOffsetMsgID; lower-case digits are taken too.
func ParseOffsetMsgID(id string) (host netip.AddrPort, p PhyOffset, err error) {
	b, err := decodeMessageID(id)
	if err != nil {
		return host, 0, err
	}
	addr, rest := messageIDAddr(b)
	port := binary.BigEndian.Uint32(rest)
	if port > 0xFFFF {
		return host, 0, fmt.Errorf("%w: %q has port %d", ErrBadMessageID, id, port)
	}
	return netip.AddrPortFrom(addr, uint16(port)), PhyOffset(binary.BigEndian.Uint64(rest[4:])), nil
}

func decodeMessageID(id string) ([]byte, error) {
	if len(id) != MessageIDChars && len(id) != MessageIDCharsV6 {
		return nil, fmt.Errorf("%w: %q has %d characters, not %d or %d", ErrBadMessageID, id, len(id),
			MessageIDChars,
			MessageIDCharsV6)
	}
	b, err := hex.DecodeString(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrBadMessageID, id, err)
	}
	return b, nil
}

func messageIDAddr(b []byte) (netip.Addr, []byte) {
	if len(b) == MessageIDCharsV6/2 {
		return netip.AddrFrom16([16]byte(b)), b[16:]
	}
	return netip.AddrFrom4([4]byte(b)), b[4:]
}

// UniqueIDGenerator makes the ids that clients put into PropUniqKey (Java MessageClientIDSetter): address,
// process id, a constant of the process, milliseconds since the start of the month and a counter. It is safe
// for many goroutines.
type UniqueIDGenerator struct {
	prefix  string // hex of address, pid and constant
	now     func() time.Time
	counter atomic.Uint32
	month   atomic.Pointer[month] // the last one, so that its start is not computed for every id
}

// month is a month of a location.
type month struct {
	start time.Time
	end   time.Time // the start of the next
}

// monthOf is the month of now: the one before, as a rule.
func (g *UniqueIDGenerator) monthOf(now time.Time) *month {
	m := g.month.Load()
	if m == nil || now.Before(m.start) || !now.Before(m.end) {
		start := startOfMonth(now)
		m = &month{start: start, end: start.AddDate(0, 1, 0)}
		g.month.Store(m)
	}
	return m
}

// NewUniqueIDGenerator makes a generator. now gives the time and, with its location, where months begin.
func NewUniqueIDGenerator(addr netip.Addr, pid int, constant uint32,
	now func() time.Time) *UniqueIDGenerator {
	var p []byte
	if isIPv6(addr) {
		b := addr.As16()
		p = append(p, b[:]...)
	} else if addr.IsValid() {
		b := addr.Unmap().As4()
		p = append(p, b[:]...)
	} else {
		p = append(p, 0, 0, 0, 0)
	}
	p = binary.BigEndian.AppendUint16(p, uint16(pid))
	p = binary.BigEndian.AppendUint32(p, constant)
	g := &UniqueIDGenerator{now: now}
	var text []byte
	for _, c := range p {
		text = appendHexByte(text, c)
	}
	g.prefix = string(text)
	return g
}

// Append appends the next id, 32 or 56 characters. Ids are unique within a month as long as no more than
// 65536 are made in a millisecond.
func (g *UniqueIDGenerator) Append(dst []byte) []byte {
	now := g.now()
	dst = append(dst, g.prefix...)
	dst = appendHex(dst, uint64(uint32(now.Sub(g.monthOf(now).start).Milliseconds())), 8)
	return appendHex(dst, uint64(uint16(g.counter.Add(1)-1)), 4)
}

// Next is Append as a string.
func (g *UniqueIDGenerator) Next() string { return string(g.Append(make([]byte, 0, MessageIDCharsV6))) }

func startOfMonth(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, t.Location())
}

// UniqueID is what a unique message id tells.
type UniqueID struct {
	Addr        netip.Addr
	PID         uint16
	Constant    uint32
	MonthMillis uint32 // since the start of the month in which it was made
	Counter     uint16
}

// ParseUniqueID decodes a unique message id.
func ParseUniqueID(id string) (u UniqueID, err error) {
	b, err := decodeMessageID(id)
	if err != nil {
		return u, err
	}
	u.Addr, b = messageIDAddr(b)
	u.PID = binary.BigEndian.Uint16(b)
	u.Constant = binary.BigEndian.Uint32(b[2:])
	u.MonthMillis = binary.BigEndian.Uint32(b[6:])
	u.Counter = binary.BigEndian.Uint16(b[10:])
	return u, nil
}

// Time is when the id was made, seen from now: in now's month, or in the one before if that would lie ahead
// (Java getNearlyTimeFromID).
func (u UniqueID) Time(now time.Time) time.Time {
	month := startOfMonth(now)
	at := month.Add(time.Duration(u.MonthMillis) * time.Millisecond)
	if at.Before(now) {
		return at
	}
	return month.AddDate(0, -1, 0).Add(time.Duration(u.MonthMillis) * time.Millisecond)
}

const upperHexDigits = "0123456789ABCDEF"

func appendHexByte(dst []byte, c byte) []byte {
	return append(dst, upperHexDigits[c>>4], upperHexDigits[c&15])
}

// appendHex appends the low digits of v.
func appendHex(dst []byte, v uint64, digits int) []byte {
	if digits >= 8 {
		if digits == 16 {
			dst = binary.BigEndian.AppendUint64(dst, upperHex8(uint32(v>>32)))
		}
		return binary.BigEndian.AppendUint64(dst, upperHex8(uint32(v)))
	}
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, upperHexDigits[v>>shift&15])
	}
	return dst
}

// upperHex8 is the eight hex digits of v, the first one in the highest byte.
func upperHex8(v uint32) uint64 {
	x := uint64(v)
	x = (x | x<<16) & 0x0000FFFF0000FFFF
	x = (x | x<<8) & 0x00FF00FF00FF00FF
	x = (x | x<<4) & 0x0F0F0F0F0F0F0F0F // a nibble in each byte
	letters := (x + 0x0606060606060606) >> 4 & 0x0101010101010101
	return x + 0x3030303030303030 + letters*('A'-'9'-1)
}
