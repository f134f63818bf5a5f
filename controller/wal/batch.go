package wal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"go.etcd.io/raft/v3/raftpb"
)

// ErrCorrupt marks damage that is not the torn end of the log.
var ErrCorrupt = errors.New("wal: damaged")

const (
	batchMagic    = 0x534B574C
	batchHeader   = 20
	recordHeader  = 5
	maxBatchBytes = 256 << 20 // a length beyond it is damage, not a batch
	recIdentity   = 1
	recHardState  = 2
	recEntry      = 3
	recReset      = 4
	recLastBefore = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is what is written at once.
type batch struct{ buf []byte }

func newBatch() *batch { return &batch{buf: make([]byte, batchHeader, 512)} }

func (b *batch) record(kind byte, content []byte) {
	b.buf = append(b.buf, kind)
	b.buf = binary.BigEndian.AppendUint32(b.buf, uint32(len(content)))
	b.buf = append(b.buf, content...)
}

func (b *batch) numbers(kind byte, numbers ...uint64) {
	var content []byte
	for _, n := range numbers {
		content = binary.BigEndian.AppendUint64(content, n)
	}
	b.record(kind, content)
}

// finish fills in the header.
func (b *batch) finish(sequence uint64) []byte {
	binary.BigEndian.PutUint32(b.buf[0:], batchMagic)
	binary.BigEndian.PutUint32(b.buf[4:], uint32(len(b.buf)-batchHeader))
	binary.BigEndian.PutUint64(b.buf[8:], sequence)
	binary.BigEndian.PutUint32(b.buf[16:], batchCRC(b.buf))
	return b.buf
}

func batchCRC(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[4:16], castagnoli), castagnoli, b[batchHeader:])
}

// parseBatch reads the batch at the beginning of data. ok is false if there is no whole one.
func parseBatch(data []byte) (sequence uint64, records []byte, size int, ok bool) {
	if len(data) < batchHeader || binary.BigEndian.Uint32(data) != batchMagic {
		return 0, nil, 0, false
	}
	n := binary.BigEndian.Uint32(data[4:])
	if n > maxBatchBytes || int64(n) > int64(len(data)-batchHeader) {
		return 0, nil, 0, false
	}
	size = batchHeader + int(n)
	if batchCRC(data[:size]) != binary.BigEndian.Uint32(data[16:]) {
		return 0, nil, 0, false
	}
	return binary.BigEndian.Uint64(data[8:]), data[batchHeader:size], size, true
}

// contents are the records of one batch.
type contents struct {
	identity   *Identity
	hardState  raftpb.HardState
	entries    []raftpb.Entry
	reset      bool
	resetAt    uint64
	resetTerm  uint64
	lastBefore uint64
}

// parseRecords reads what a batch with a good CRC holds; an error is a bug or another program's file.
func parseRecords(data []byte) (c contents, err error) {
	for len(data) > 0 {
		if len(data) < recordHeader {
			return c, errors.New("half a record in a whole batch")
		}
		kind, n := data[0], binary.BigEndian.Uint32(data[1:])
		if int64(n) > int64(len(data)-recordHeader) {
			return c, fmt.Errorf("record of type %d is longer than its batch", kind)
		}
		content := data[recordHeader : recordHeader+int(n)]
		data = data[recordHeader+int(n):]
		if err := c.add(kind, content); err != nil {
			return c, fmt.Errorf("record of type %d: %w", kind, err)
		}
	}
	return c, nil
}

func (c *contents) add(kind byte, content []byte) error {
	numbers := func(n int) error {
		if len(content) != 8*n {
			return fmt.Errorf("%d bytes instead of %d", len(content), 8*n)
		}
		return nil
	}
	switch kind {
	case recIdentity:
		c.identity = new(Identity)
		return json.Unmarshal(content, c.identity)
	case recHardState:
		return c.hardState.Unmarshal(content)
	case recEntry:
		var e raftpb.Entry
		if err := e.Unmarshal(content); err != nil {
			return err
		}
		c.entries = append(c.entries, e)
	case recReset:
		if err := numbers(2); err != nil {
			return err
		}
		c.reset = true
		c.resetAt, c.resetTerm = binary.BigEndian.Uint64(content), binary.BigEndian.Uint64(content[8:])
	case recLastBefore:
		if err := numbers(1); err != nil {
			return err
		}
		c.lastBefore = binary.BigEndian.Uint64(content)
	default:
		return errors.New("not known to this program")
	}
	return nil
}
