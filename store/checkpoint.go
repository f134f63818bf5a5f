package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"skylark/internal/clock"
	"skylark/internal/vfs"
)

const (
	checkpointFileName = "checkpoint"
	checkpointBytes    = 4096
	// checkpointMargin is what Java subtracts from the older of the two times before it trusts it.
	checkpointMargin = 3000 // ms
	// checkpointFuture is how far ahead of the clock a loaded time may be before it counts as rubbish.
	checkpointFuture = 24 * time.Hour
	// checkpointInterval is the least time between two writes of the file.
	checkpointInterval = time.Second
)

// storeCheckpoint is the file `checkpoint` (Java StoreCheckpoint): up to which store times log, queues and index are on
// the disk, and two offsets.
//
//	offset  int64
//	0       physicMsgTimestamp   last record of the CommitLog that is flushed
//	8       logicsMsgTimestamp   last record whose ConsumeQueue entry is flushed
//	16      indexMsgTimestamp    last record of the last full IndexFile that is flushed
//	24      masterFlushedOffset
//	32      confirmPhyOffset     up to where consumers were shown the log (Options.ConfirmedOnly), else the last record
//	40…     zeros up to 4096
//
// Java moves logicsMsgTimestamp with every entry and writes it every second, flushed or not; ours moves when the queues
// have been flushed, so abnormal recovery never starts behind an entry that was lost.
//
// The 40 bytes are in one sector, which a disk writes whole, and are rewritten in place followed by fdatasync: a rename
// a second would cost two journal commits for nothing. Only a new file is made by temporary name.
type storeCheckpoint struct {
	fs     vfs.FS
	path   string
	signal dirtySignal

	physicMsgTimestamp  atomic.Int64
	logicsMsgTimestamp  atomic.Int64
	indexMsgTimestamp   atomic.Int64
	masterFlushedOffset atomic.Int64
	confirmPhyOffset    atomic.Int64
	// shown is what confirmPhyOffset is at any time, nil where it does not move. Set before the services start.
	shown func() PhyOffset

	mu      sync.Mutex
	written [5]int64 // what the file holds
	intact  bool     // the file exists and holds it
}

func newStoreCheckpoint(fs vfs.FS, rootDir string) *storeCheckpoint {
	return &storeCheckpoint{fs: fs, path: path.Join(rootDir, checkpointFileName), signal: newDirtySignal()}
}

// flushedLog notes that the log is durable up to a store time.
func (c *storeCheckpoint) flushedLog(timestamp int64) {
	if timestamp > c.physicMsgTimestamp.Load() {
		c.physicMsgTimestamp.Store(timestamp)
		c.signal.raise()
	}
}

func (c *storeCheckpoint) fields() [5]*atomic.Int64 {
	return [5]*atomic.Int64{&c.physicMsgTimestamp, &c.logicsMsgTimestamp, &c.indexMsgTimestamp,
		&c.masterFlushedOffset, &c.confirmPhyOffset}
}

// load reads the file. A missing or damaged one counts as zeros, which makes abnormal recovery start at the first file:
// slow and right. damaged says what was wrong.
func (c *storeCheckpoint) load(nowMillis int64) (damaged error, err error) {
	data, err := vfs.ReadFile(c.fs, c.path)
	if ignoreNotExist(err) != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err != nil {
		return nil, nil
	}
	if len(data) != checkpointBytes {
		return fmt.Errorf("store: %s has %d bytes, not %d", c.path, len(data), checkpointBytes), nil
	}
	limit := nowMillis + checkpointFuture.Milliseconds()
	var values [5]int64
	for i := range values {
		values[i] = int64(binary.BigEndian.Uint64(data[8*i:]))
		if i < 3 && (values[i] < 0 || values[i] > limit) {
			return fmt.Errorf("store: %s holds the time %d at byte %d", c.path, values[i], 8*i), nil
		}
	}
	for i, field := range c.fields() {
		field.Store(values[i])
	}
	c.mu.Lock()
	c.written, c.intact = values, true
	c.mu.Unlock()
	return nil, nil
}

// minTimestamp is the store time up to which log and queues are surely on the disk, 0 if unknown.
func (c *storeCheckpoint) minTimestamp() int64 {
	return max(0, min(c.physicMsgTimestamp.Load(), c.logicsMsgTimestamp.Load())-checkpointMargin)
}

// minTimestampIndex also takes the index into account.
func (c *storeCheckpoint) minTimestampIndex() int64 {
	return min(c.minTimestamp(), c.indexMsgTimestamp.Load())
}

// values is what a flush would write now.
func (c *storeCheckpoint) values() (v [5]int64) {
	for i, field := range c.fields() {
		v[i] = field.Load()
	}
	if c.shown != nil {
		v[4] = int64(c.shown())
	}
	return v
}

// dirty tells that the file is behind.
func (c *storeCheckpoint) dirty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values() != c.written
}

// flush makes the current values durable.
func (c *storeCheckpoint) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.values()
	if c.intact && v == c.written {
		return nil
	}
	data := make([]byte, checkpointBytes)
	for i := range v {
		binary.BigEndian.PutUint64(data[8*i:], uint64(v[i]))
	}
	if err := c.write(data); err != nil {
		return fmt.Errorf("store: write checkpoint: %w", err)
	}
	c.written, c.intact = v, true
	return nil
}

func (c *storeCheckpoint) write(data []byte) error {
	info, err := c.fs.Stat(c.path)
	if err != nil || info.Size() != checkpointBytes {
		return vfs.WriteFileAtomic(c.fs, c.path, data, false)
	}
	f, err := c.fs.OpenReadWrite(c.path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// checkpointService writes the file within checkpointInterval after the log was flushed, so that the flush services do
// not wait for a second sync. Without changes it sleeps.
type checkpointService struct {
	checkpoint *storeCheckpoint
	clock      clock.Clock
	fail       func(error)
	stop       chan struct{}
	done       chan struct{}
}

func newCheckpointService(c *storeCheckpoint, o *Options, fail func(error)) *checkpointService {
	return &checkpointService{checkpoint: c, clock: o.Clock, fail: fail, stop: make(chan struct{}),
		done: make(chan struct{})}
}

func (s *checkpointService) start() { go s.run() }

func (s *checkpointService) run() {
	defer close(s.done)
	for s.checkpoint.signal.await(s.checkpoint.dirty, s.stop) {
		over := make(chan struct{})
		timer := s.clock.AfterFunc(checkpointInterval, func() { close(over) })
		select {
		case <-over:
		case <-s.stop:
			timer.Stop()
			return // Close writes the last state itself
		}
		if err := s.checkpoint.flush(); err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *checkpointService) close() {
	close(s.stop)
	<-s.done
}
