package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Magic codes of CommitLog records (Java MessageVersion, CommitLog.BLANK_MAGIC_CODE).
const (
	MagicV1    uint32 = 0xDAA320A7 // topic length in one byte
	MagicV2    uint32 = 0xDAA320AB // topic length in two bytes
	MagicBlank uint32 = 0xCBD43194 // the rest of the file is unused
)

// Sizes and positions within a record.
const (
	// MinRecordBytes is a V1 record with IPv4 hosts and no topic, body or properties.
	MinRecordBytes = 91
	// BlankRecordBytes is the part of a blank record that is written.
	BlankRecordBytes = 8

	recordQueueOffsetAt = 20
	recordPhyOffsetAt   = 28
	recordSysFlagAt     = 36
	recordBornHostAt    = 48
)

// ErrCorrupt marks bytes that are no record: a length out of bounds, an unknown magic code, a checksum that
// does not fit. The store wraps it with file and position.
var ErrCorrupt = errors.New("codec: corrupt record")

// IsCorrupt tells whether err says that stored bytes are damaged.
func IsCorrupt(err error) bool { return errors.Is(err, ErrCorrupt) }

// Record is a view of one CommitLog record. Body, Topic and Properties alias the bytes it was parsed from;
// Message makes a copy that lasts.
type Record struct {
	TotalSize                 int
	Magic                     uint32
	BodyCRC                   uint32
	QueueID                   int32
	Flag                      int32
	QueueOffset               QueueOffset
	PhyOffset                 PhyOffset
	SysFlag                   int32
	BornTimestamp             int64
	BornHost                  netip.AddrPort
	StoreTimestamp            int64
	StoreHost                 netip.AddrPort
	ReconsumeTimes            int32
	PreparedTransactionOffset PhyOffset
	Body                      []byte
	Topic                     []byte
	Properties                []byte
}

// IsBlank tells that the record only says how many bytes remain in the file: TotalSize. Its other fields are
// zero.
func (r *Record) IsBlank() bool { return r.Magic == MagicBlank }

// TransactionState is the transaction bits of SysFlag.
func (r *Record) TransactionState() int32 { return r.SysFlag & SysFlagTransactionMask }

// Property is the value of a property; nil, false when there is none.
func (r *Record) Property(name string) ([]byte, bool) { return LookupProperty(r.Properties, name) }

// ParseRecord reads the record at the start of b without copying or allocating. Every length is checked
// against TotalSize and that against b; whatever does not fit, and with checkCRC a body that does not match
// its checksum, is ErrCorrupt. A blank record is no error; its TotalSize, at least 8, may reach beyond b.
func ParseRecord(b []byte, checkCRC bool) (r Record, err error) {
	be := binary.BigEndian
	if len(b) < BlankRecordBytes {
		return r, fmt.Errorf("%w: %d bytes, at least %d needed", ErrCorrupt, len(b), BlankRecordBytes)
	}
	size := int(int32(be.Uint32(b)))
	magic := be.Uint32(b[4:])
	switch magic {
	case MagicBlank:
		if size < BlankRecordBytes {
			return r, fmt.Errorf("%w: blank of %d bytes", ErrCorrupt, size)
		}
		return Record{TotalSize: size, Magic: magic}, nil
	case MagicV1, MagicV2:
	default:
		return r, fmt.Errorf("%w: magic code %#08x", ErrCorrupt, magic)
	}
	if size < MinRecordBytes || size > len(b) {
		return r, fmt.Errorf("%w: size %d not in [%d, %d]", ErrCorrupt, size, MinRecordBytes, len(b))
	}
	rec := Record{
		TotalSize:     size,
		Magic:         magic,
		BodyCRC:       be.Uint32(b[8:]),
		QueueID:       int32(be.Uint32(b[12:])),
		Flag:          int32(be.Uint32(b[16:])),
		QueueOffset:   QueueOffset(be.Uint64(b[recordQueueOffsetAt:])),
		PhyOffset:     PhyOffset(be.Uint64(b[recordPhyOffsetAt:])),
		SysFlag:       int32(be.Uint32(b[recordSysFlagAt:])),
		BornTimestamp: int64(be.Uint64(b[40:])),
	}
	if err := rec.parseVariable(b[recordBornHostAt:size]); err != nil {
		return r, err
	}
	if checkCRC {
		if crc := BodyCRC(rec.Body); crc != rec.BodyCRC {
			return r, fmt.Errorf("%w: body checksum %#x, recorded %#x", ErrCorrupt, crc, rec.BodyCRC)
		}
	}
	return rec, nil
}

// parseVariable reads the record from the born host on. b ends where the record ends.
func (r *Record) parseVariable(b []byte) error {
	be := binary.BigEndian
	fixed := 8 + 8 + 8 + 4 + 8 + 4 // hosts, store timestamp, reconsume times, transaction offset, body length
	if r.SysFlag&SysFlagBornHostV6 != 0 {
		fixed += 12
	}
	if r.SysFlag&SysFlagStoreHostV6 != 0 {
		fixed += 12
	}
	if len(b) < fixed {
		return fmt.Errorf("%w: size %d too small for its addresses", ErrCorrupt, r.TotalSize)
	}
	r.BornHost, b = parseHost(b, r.SysFlag&SysFlagBornHostV6 != 0)
	r.StoreTimestamp = int64(be.Uint64(b))
	r.StoreHost, b = parseHost(b[8:], r.SysFlag&SysFlagStoreHostV6 != 0)
	r.ReconsumeTimes = int32(be.Uint32(b))
	r.PreparedTransactionOffset = PhyOffset(be.Uint64(b[4:]))
	n := int(int32(be.Uint32(b[12:])))
	b = b[16:]
	if n < 0 || n > len(b) {
		return fmt.Errorf("%w: body of %d bytes in %d", ErrCorrupt, n, len(b))
	}
	r.Body, b = b[:n:n], b[n:]

	lengthBytes := 1
	if r.Magic == MagicV2 {
		lengthBytes = 2
	}
	if len(b) < lengthBytes {
		return fmt.Errorf("%w: no room for the topic", ErrCorrupt)
	}
	if n = int(int8(b[0])); lengthBytes == 2 {
		n = int(int16(be.Uint16(b)))
	}
	b = b[lengthBytes:]
	if n < 0 || n > len(b) {
		return fmt.Errorf("%w: topic of %d bytes in %d", ErrCorrupt, n, len(b))
	}
	r.Topic, b = b[:n:n], b[n:]

	if len(b) < 2 {
		return fmt.Errorf("%w: no room for the properties", ErrCorrupt)
	}
	n = int(int16(be.Uint16(b)))
	b = b[2:]
	if n < 0 || n > len(b) {
		return fmt.Errorf("%w: properties of %d bytes in %d", ErrCorrupt, n, len(b))
	}
	r.Properties, b = b[:n:n], b[n:]
	if len(b) != 0 {
		return fmt.Errorf("%w: %d bytes behind the properties", ErrCorrupt, len(b))
	}
	return nil
}

// parseHost reads address and port. A port beyond 65535, which no socket has, is cut to 16 bits.
func parseHost(b []byte, v6 bool) (h netip.AddrPort, rest []byte) {
	var a netip.Addr
	if v6 {
		a, b = netip.AddrFrom16([16]byte(b)), b[16:]
	} else {
		a, b = netip.AddrFrom4([4]byte(b)), b[4:]
	}
	return netip.AddrPortFrom(a, uint16(binary.BigEndian.Uint32(b))), b[4:]
}

// Message copies the record into a Message of its own memory. TagsCode is computed from the tags.
func (r *Record) Message() *Message {
	buf := make([]byte, len(r.Body)+len(r.Properties))
	n := copy(buf, r.Body)
	copy(buf[n:], r.Properties)
	tags, _ := LookupProperty(buf[n:], PropTags)
	return &Message{
		Topic:                     string(r.Topic),
		QueueID:                   r.QueueID,
		Flag:                      r.Flag,
		SysFlag:                   r.SysFlag,
		BornTimestamp:             r.BornTimestamp,
		BornHost:                  r.BornHost,
		StoreHost:                 r.StoreHost,
		ReconsumeTimes:            r.ReconsumeTimes,
		PreparedTransactionOffset: r.PreparedTransactionOffset,
		Body:                      buf[:n:n],
		Properties:                buf[n:],
		TagsCode:                  TagsCode(tags),
		WaitStoreMsgOK:            true,
		QueueOffset:               r.QueueOffset,
		PhyOffset:                 r.PhyOffset,
		StoreTimestamp:            r.StoreTimestamp,
	}
}

// PatchRecord fills the holes of a record made by AppendRecord, in place.
func PatchRecord(rec []byte, q QueueOffset, p PhyOffset, storeTimestamp int64) {
	be := binary.BigEndian
	be.PutUint64(rec[recordQueueOffsetAt:], uint64(q))
	be.PutUint64(rec[recordPhyOffsetAt:], uint64(p))
	at := recordBornHostAt + 8
	if int32(be.Uint32(rec[recordSysFlagAt:]))&SysFlagBornHostV6 != 0 {
		at += 12
	}
	be.PutUint64(rec[at:], uint64(storeTimestamp))
}

// RecordSize reads the size and the magic code of the record at the start of b, which has at least 8 bytes,
// without judging them.
func RecordSize(b []byte) (size int, magic uint32) {
	return int(int32(binary.BigEndian.Uint32(b))), binary.BigEndian.Uint32(b[4:])
}

// AppendBlank appends the 8 bytes that mark the remaining size bytes of a file, these included, as unused.
func AppendBlank(dst []byte, size int) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	return binary.BigEndian.AppendUint32(dst, MagicBlank)
}
