package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"path"
	"slices"
	"sync"

	"skylark/internal/vfs"
)

const (
	queueCheckpointFileName = "queueCheckpoint"
	queueCheckpointVersion  = 1
)

// queueKey names a queue.
type queueKey struct {
	topic   string
	queueID int32
}

// queueMark says how much of a queue is on the disk.
type queueMark struct {
	minOffset, maxOffset int64
	minPhy               int64 // start of the record at minOffset, -1 without
	maxPhy               int64 // end of the last record that has an entry below maxOffset, -1 without
	// batch tells that the queue is of the kind BatchCQ: minOffset and maxOffset count entries then, and next is the queue
	// offset behind the last message.
	batch bool
	next  int64
}

// indexMark says how much of an IndexFile is on the disk: the entries below count.
type indexMark struct {
	name           string
	count          int32
	beginTimestamp int64
	endTimestamp   int64
	beginPhyOffset int64
	endPhyOffset   int64
}

// queueMarks is the content of the file `queueCheckpoint`: what ConsumeQueues and index hold for sure. Java has no such
// file and ignores it. What it is for:
//
//   - after a clean stop a queue is opened by looking at two entries instead of reading its last three files;
//   - a queue whose files were lost, and whose loss left no trace in the directory, is found missing and rebuilt from
//     the log; one whose records have all expired keeps its numbering (case B15);
//   - an IndexFile that was being filled survives a crash up to its mark;
//   - topics that were deleted do not come back when their records are dispatched again.
//
// It is text, one item a line, the last line a CRC-32 of those before:
//
//	skylark-queues 1
//	log <end of the log>
//	dispatched <store time of the last record that is below the marks>
//	indexed <offset below which every record is in the index>
//	index <count> <beginTimestamp> <endTimestamp> <beginPhyOffset> <endPhyOffset> <name>
//	deleted <offset> "<topic>"
//	queue <queueID> <min> <max> <minPhy> <maxPhy> "<topic>"
//	batchqueue <queueID> <min> <max> <minPhy> <maxPhy> <next> "<topic>"
//	crc <hex>
//
// A file that is missing or damaged counts as empty: recovery then does as Java does.
type queueMarks struct {
	present bool
	logEnd  PhyOffset
	// dispatched is a store time, ms: entries of records dispatched before it are below the marks.
	dispatched int64
	indexedTo  PhyOffset
	index      []indexMark
	deleted    map[string]PhyOffset
	queues     map[queueKey]queueMark
}

// queueCheckpoint is the file. Writers take turns.
type queueCheckpoint struct {
	fs   vfs.FS
	path string
	mu   sync.Mutex
	last []byte // as written, to spare equal writes
}

func newQueueCheckpoint(fs vfs.FS, rootDir string) *queueCheckpoint {
	return &queueCheckpoint{fs: fs, path: path.Join(rootDir, queueCheckpointFileName)}
}

// load reads the file; damaged says what was wrong with it.
func (c *queueCheckpoint) load() (m queueMarks, damaged, err error) {
	data, err := vfs.ReadFile(c.fs, c.path)
	if err != nil {
		if ignoreNotExist(err) != nil {
			return m, nil, fmt.Errorf("store: %w", err)
		}
		return m, nil, nil
	}
	m, err = parseQueueMarks(data)
	if err != nil {
		return queueMarks{}, fmt.Errorf("store: %s: %w", c.path, err), nil
	}
	c.last = data
	return m, nil, nil
}

// save makes m durable. make is called under the lock, so that an older state never replaces a newer one.
func (c *queueCheckpoint) save(make func() queueMarks) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := make()
	data := m.encode()
	if bytes.Equal(data, c.last) {
		return nil
	}
	if err := vfs.WriteFileAtomic(c.fs, c.path, data, false); err != nil {
		return fmt.Errorf("store: write %s: %w", c.path, err)
	}
	c.last = data
	return nil
}

func (m *queueMarks) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "skylark-queues %d\n", queueCheckpointVersion)
	fmt.Fprintf(&b, "log %d\ndispatched %d\nindexed %d\n", m.logEnd, m.dispatched, m.indexedTo)
	for _, x := range m.index {
		fmt.Fprintf(&b, "index %d %d %d %d %d %s\n", x.count, x.beginTimestamp, x.endTimestamp,
			x.beginPhyOffset, x.endPhyOffset, x.name)
	}
	for _, topic := range slices.Sorted(maps.Keys(m.deleted)) {
		fmt.Fprintf(&b, "deleted %d %q\n", m.deleted[topic], topic)
	}
	keys := slices.SortedFunc(maps.Keys(m.queues), func(a, b queueKey) int {
		if a.topic != b.topic {
			return cmpString(a.topic, b.topic)
		}
		return int(a.queueID) - int(b.queueID)
	})
	for _, k := range keys {
		q := m.queues[k]
		if q.batch {
			fmt.Fprintf(&b, "batchqueue %d %d %d %d %d %d %q\n", k.queueID, q.minOffset, q.maxOffset, q.minPhy, q.maxPhy,
				q.next, k.topic)
			continue
		}
		fmt.Fprintf(&b, "queue %d %d %d %d %d %q\n", k.queueID, q.minOffset, q.maxOffset, q.minPhy, q.maxPhy, k.topic)
	}
	fmt.Fprintf(&b, "crc %08x\n", crc32.ChecksumIEEE(b.Bytes()))
	return b.Bytes()
}

func cmpString(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

var errQueueMarks = errors.New("damaged")

func parseQueueMarks(data []byte) (queueMarks, error) {
	m := queueMarks{present: true, deleted: map[string]PhyOffset{}, queues: map[queueKey]queueMark{}}
	tail := bytes.LastIndex(data, []byte("crc "))
	if tail < 0 {
		return m, fmt.Errorf("%w: no checksum", errQueueMarks)
	}
	if string(data[tail:]) != fmt.Sprintf("crc %08x\n", crc32.ChecksumIEEE(data[:tail])) {
		return m, fmt.Errorf("%w: checksum", errQueueMarks)
	}
	scanner := bufio.NewScanner(bytes.NewReader(data[:tail]))
	for number := 1; scanner.Scan(); number++ {
		if err := m.parseLine(scanner.Text(), number); err != nil {
			return m, fmt.Errorf("%w: line %d: %w", errQueueMarks, number, err)
		}
	}
	return m, scanner.Err()
}

func (m *queueMarks) parseLine(line string, number int) error {
	var kind string
	if _, err := fmt.Sscan(line, &kind); err != nil {
		return err
	}
	var err error
	switch kind {
	case "skylark-queues":
		var version int
		if _, err = fmt.Sscanf(line, "skylark-queues %d", &version); version != queueCheckpointVersion || number != 1 {
			err = fmt.Errorf("version %d is not %d", version, queueCheckpointVersion)
		}
	case "log":
		_, err = fmt.Sscanf(line, "log %d", &m.logEnd)
	case "dispatched":
		_, err = fmt.Sscanf(line, "dispatched %d", &m.dispatched)
	case "indexed":
		_, err = fmt.Sscanf(line, "indexed %d", &m.indexedTo)
	case "index":
		var x indexMark
		_, err = fmt.Sscanf(line, "index %d %d %d %d %d %s", &x.count, &x.beginTimestamp, &x.endTimestamp,
			&x.beginPhyOffset, &x.endPhyOffset, &x.name)
		m.index = append(m.index, x)
	case "deleted":
		var topic string
		var before PhyOffset
		_, err = fmt.Sscanf(line, "deleted %d %q", &before, &topic)
		m.deleted[topic] = before
	case "queue":
		var k queueKey
		var q queueMark
		_, err = fmt.Sscanf(line, "queue %d %d %d %d %d %q", &k.queueID, &q.minOffset, &q.maxOffset, &q.minPhy,
			&q.maxPhy, &k.topic)
		m.queues[k] = q
	case "batchqueue":
		var k queueKey
		q := queueMark{batch: true}
		_, err = fmt.Sscanf(line, "batchqueue %d %d %d %d %d %d %q", &k.queueID, &q.minOffset, &q.maxOffset, &q.minPhy,
			&q.maxPhy, &q.next, &k.topic)
		m.queues[k] = q
	default:
		err = fmt.Errorf("unknown item %q", kind)
	}
	return err
}
