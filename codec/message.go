package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net/netip"
)

// Limits of a record's variable parts in bytes (spec messages.md §2, §3). The limit of the body,
// maxMessageSize, is the store's and the broker's.
const (
	// MaxPropertiesBytes is the largest properties string, the broker's additions included: the length is an
	// int16.
	MaxPropertiesBytes = math.MaxInt16
	// maxTopicBytesV1 is what the signed length byte of a V1 record holds.
	maxTopicBytesV1 = math.MaxInt8
)

// Errors of AppendRecord; the store answers them with PROPERTIES_SIZE_EXCEEDED and MESSAGE_ILLEGAL.
var (
	ErrPropertiesTooLong = errors.New("codec: message properties too long")
	ErrTopicTooLong      = errors.New("codec: topic too long")
	ErrBodyTooLong       = errors.New("codec: message body too long")
)

// Message is one message on its way into the store, or copied out of it (Java MessageExtBrokerInner,
// MessageExt). Zero hosts are written as 0.0.0.0:0.
type Message struct {
	Topic                     string
	QueueID                   int32
	Flag                      int32 // the user's
	SysFlag                   int32 // SysFlag… bits; the IPv6 bits are set by AppendRecord from the hosts
	BornTimestamp             int64 // milliseconds
	BornHost                  netip.AddrPort
	StoreHost                 netip.AddrPort
	ReconsumeTimes            int32
	PreparedTransactionOffset PhyOffset // of the half message, of a committed or rolled back one
	Body                      []byte
	Properties                []byte // the encoded string, see AppendProperty
	TagsCode                  int64  // what the ConsumeQueue entry gets; not in the record
	WaitStoreMsgOK            bool   // the sender waits for the promised durability; not in the record

	// What the store assigns; set on messages that were read.
	QueueOffset    QueueOffset
	PhyOffset      PhyOffset
	StoreTimestamp int64 // milliseconds
}

// Property is the value of a property; nil, false when there is none.
func (m *Message) Property(name string) ([]byte, bool) { return LookupProperty(m.Properties, name) }

// TransactionState is the transaction bits of SysFlag: SysFlagTransactionNone, …Prepared, …Commit or
// …Rollback.
func (m *Message) TransactionState() int32 { return m.SysFlag & SysFlagTransactionMask }

// AppendRecord appends m as one CommitLog record with three holes that PatchRecord fills: queue offset,
// physical offset, store timestamp. A topic of more than 127 bytes makes it a V2 record, which 4.9 cannot
// read. Errors are ErrTopicTooLong (255 bytes), ErrPropertiesTooLong and ErrBodyTooLong; dst is then returned
// unchanged.
//
// Per message: the body is read once for the CRC and copied once, nothing is allocated if dst has room
// (RecordBytes).
func AppendRecord(dst []byte, m *Message) ([]byte, error) {
	magic := MagicV1
	if len(m.Topic) > maxTopicBytesV1 {
		magic = MagicV2
	}
	return appendRecord(dst, m, magic, 0, 0, 0)
}

// AppendRecordV1 appends m as a finished V1 record with its own offsets and store timestamp: the form in
// which the broker re-encodes messages for clients (POP retries, transaction checks, direct consumption). A
// topic over 127 bytes is ErrTopicTooLong: it has no V1 form.
func AppendRecordV1(dst []byte, m *Message) ([]byte, error) {
	return appendRecord(dst, m, MagicV1, m.QueueOffset, m.PhyOffset, m.StoreTimestamp)
}

// RecordBytes is the size of the record that AppendRecord makes of m.
func RecordBytes(m *Message) int {
	n := MinRecordBytes + len(m.Topic) + len(m.Body) + len(m.Properties)
	if len(m.Topic) > maxTopicBytesV1 {
		n++
	}
	if isIPv6(m.BornHost.Addr()) {
		n += 12
	}
	if isIPv6(m.StoreHost.Addr()) {
		n += 12
	}
	return n
}

func appendRecord(dst []byte, m *Message, magic uint32, q QueueOffset, p PhyOffset, stored int64) ([]byte,
	error) {
	switch {
	case magic == MagicV1 && len(m.Topic) > maxTopicBytesV1, len(m.Topic) > MaxRetryTopicLength:
		return dst, fmt.Errorf("%w: %d bytes", ErrTopicTooLong, len(m.Topic))
	case len(m.Properties) > MaxPropertiesBytes:
		return dst, fmt.Errorf("%w: %d bytes, at most %d", ErrPropertiesTooLong, len(m.Properties),
			MaxPropertiesBytes)
	case len(m.Body) > MaxFrameBytes:
		return dst, fmt.Errorf("%w: %d bytes", ErrBodyTooLong, len(m.Body))
	}
	sysFlag := m.SysFlag &^ (SysFlagBornHostV6 | SysFlagStoreHostV6)
	if isIPv6(m.BornHost.Addr()) {
		sysFlag |= SysFlagBornHostV6
	}
	if isIPv6(m.StoreHost.Addr()) {
		sysFlag |= SysFlagStoreHostV6
	}
	be := binary.BigEndian
	start := len(dst)
	dst = be.AppendUint32(dst, 0) // total size, below
	dst = be.AppendUint32(dst, magic)
	dst = be.AppendUint32(dst, BodyCRC(m.Body))
	dst = be.AppendUint32(dst, uint32(m.QueueID))
	dst = be.AppendUint32(dst, uint32(m.Flag))
	dst = be.AppendUint64(dst, uint64(q))
	dst = be.AppendUint64(dst, uint64(p))
	dst = be.AppendUint32(dst, uint32(sysFlag))
	dst = be.AppendUint64(dst, uint64(m.BornTimestamp))
	dst = appendHost(dst, m.BornHost)
	dst = be.AppendUint64(dst, uint64(stored))
	dst = appendHost(dst, m.StoreHost)
	dst = be.AppendUint32(dst, uint32(m.ReconsumeTimes))
	dst = be.AppendUint64(dst, uint64(m.PreparedTransactionOffset))
	dst = be.AppendUint32(dst, uint32(len(m.Body)))
	dst = append(dst, m.Body...)
	if magic == MagicV2 {
		dst = be.AppendUint16(dst, uint16(len(m.Topic)))
	} else {
		dst = append(dst, byte(len(m.Topic)))
	}
	dst = append(dst, m.Topic...)
	dst = be.AppendUint16(dst, uint16(len(m.Properties)))
	dst = append(dst, m.Properties...)
	be.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst, nil
}

// BodyCRC is the checksum of a record's body: CRC-32 (IEEE) without the sign bit.
func BodyCRC(body []byte) uint32 { return crc32.ChecksumIEEE(body) & math.MaxInt32 }

// isIPv6 tells whether a host takes 16 bytes. IPv4 in IPv6 form is what a dual-stack socket reports for an
// IPv4 peer.
func isIPv6(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }

// appendHost writes address and port as Java does: 4 or 16 bytes, then the port as int32.
func appendHost(dst []byte, h netip.AddrPort) []byte {
	switch a := h.Addr(); {
	case isIPv6(a):
		b := a.As16()
		dst = append(dst, b[:]...)
	case a.IsValid():
		b := a.Unmap().As4()
		dst = append(dst, b[:]...)
	default:
		dst = append(dst, 0, 0, 0, 0)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(h.Port()))
}
