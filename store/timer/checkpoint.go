package timer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

// Checkpoint is config/timercheck (Java TimerCheckpoint), seven int64 in a file of 4096 bytes; also the answer to
// GET_TIMER_CHECK_POINT (60).
type Checkpoint struct {
	// LastReadTimeMs: everything due before it has been delivered.
	LastReadTimeMs int64
	// LastTimerLogFlushPos: up to here the TimerLog and the wheel are durable.
	LastTimerLogFlushPos int64
	// LastTimerQueueOffset: the messages of the timer topic before it are in the TimerLog, or delivered.
	LastTimerQueueOffset int64
	// MasterTimerQueueOffset is the same on the master.
	MasterTimerQueueOffset int64
	DataVersion            body.DataVersion
}

const (
	checkpointBytes = 56
	// checkpointFileBytes is the page that Java maps.
	checkpointFileBytes = 4096
)

// Encode is the form on the wire and at the start of the file.
func (c *Checkpoint) Encode() []byte {
	b := make([]byte, 0, checkpointBytes)
	for _, n := range []int64{c.LastReadTimeMs, c.LastTimerLogFlushPos, c.LastTimerQueueOffset, c.MasterTimerQueueOffset,
		c.DataVersion.StateVersion, c.DataVersion.Timestamp, c.DataVersion.Counter} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// DecodeCheckpoint reads what Encode wrote; slaves of the 5.0 line leave the data version out.
func DecodeCheckpoint(b []byte) (c Checkpoint, err error) {
	if len(b) < 32 {
		return c, fmt.Errorf("timer: checkpoint has %d bytes, at least 32 are needed", len(b))
	}
	n := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i*8:])) }
	c = Checkpoint{LastReadTimeMs: n(0), LastTimerLogFlushPos: n(1), LastTimerQueueOffset: n(2),
		MasterTimerQueueOffset: n(3)}
	if len(b) >= checkpointBytes {
		c.DataVersion = body.DataVersion{StateVersion: n(4), Timestamp: n(5), Counter: n(6)}
	}
	return c, nil
}

// mark is ours, behind Java's numbers, which Java leaves alone:
//
//	56 int64  "SKYTIMER"
//	64 int64  end of the CommitLog before anything was delivered that Java's numbers do not tell
//	72 int64  1 = nothing was
//	80 int64  CRC-32 of the 80 bytes before it: once Java has written its numbers the mark does not count
type mark struct {
	phy   codec.PhyOffset
	quiet bool
	valid bool
}

const (
	markMagic = uint64(0x534B5954494D4552)
	markEnd   = 88
)

// checkpointFile is the file; made at the first write.
type checkpointFile struct {
	fs   vfs.FS
	name string
	f    vfs.File
}

// load reads the file; one that is missing or too short is a zero checkpoint.
func (cf *checkpointFile) load() (c Checkpoint, m mark, found bool, err error) {
	b, err := vfs.ReadFile(cf.fs, cf.name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(b) < checkpointBytes {
		return c, m, false, nil
	}
	if err != nil {
		return c, m, false, fmt.Errorf("timer: %w", err)
	}
	if c, err = DecodeCheckpoint(b[:checkpointBytes]); err != nil {
		return c, m, false, err
	}
	be := binary.BigEndian
	if len(b) >= markEnd && be.Uint64(b[56:]) == markMagic && be.Uint64(b[80:]) == uint64(crc32.ChecksumIEEE(b[:80])) {
		m = mark{phy: codec.PhyOffset(be.Uint64(b[64:])), quiet: be.Uint64(b[72:]) == 1, valid: true}
	}
	if c.LastReadTimeMs < 0 || c.LastTimerLogFlushPos < 0 || c.LastTimerQueueOffset < 0 {
		return Checkpoint{}, mark{}, false, nil
	}
	return c, m, c != Checkpoint{}, nil // all zeros: only the mark has been written yet
}

// write stores the checkpoint; sync makes it durable.
func (cf *checkpointFile) write(c *Checkpoint, m mark) error {
	if cf.f == nil {
		f, err := openSized(cf.fs, cf.name, checkpointFileBytes)
		if err != nil {
			return err
		}
		cf.f = f
	}
	b := c.Encode()
	be := binary.BigEndian
	b = be.AppendUint64(b, markMagic)
	b = be.AppendUint64(b, uint64(m.phy))
	quiet := uint64(0)
	if m.quiet {
		quiet = 1
	}
	b = be.AppendUint64(b, quiet)
	b = be.AppendUint64(b, uint64(crc32.ChecksumIEEE(b)))
	if _, err := cf.f.WriteAt(b, 0); err != nil {
		return fmt.Errorf("timer: %s: %w", cf.name, err)
	}
	return nil
}

func (cf *checkpointFile) sync() error {
	if err := cf.f.Sync(); err != nil {
		return fmt.Errorf("timer: %s: %w", cf.name, err)
	}
	return nil
}

func (cf *checkpointFile) close() error {
	if cf.f == nil {
		return nil
	}
	err := cf.f.Close()
	cf.f = nil
	return err
}
