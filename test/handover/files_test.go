//go:build interop

package handover

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

const entryBytes = 20 // of a ConsumeQueue and of an IndexFile

// phyRange is a part of the CommitLog.
type phyRange struct{ from, to codec.PhyOffset }

// namedFile is a file of a directory whose names sort.
type namedFile struct {
	name string
	data []byte
}

// readFiles reads the files of a directory in the order of their names. A missing directory has none.
func readFiles(t *testing.T, dir string) (files []namedFile) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files = append(files, namedFile{e.Name(), data})
	}
	return files
}

// queueFileBytes is mappedFileSizeConsumeQueue of these tests, in bytes.
const queueFileBytes = 300 * entryBytes

// queueFile is a ConsumeQueue as it lies on the disk: the entries from the one at offset first on.
type queueFile struct {
	first   int64
	entries []byte
}

// queueFiles reads every ConsumeQueue up to its last entry. Who is killed while it makes a file leaves it short, or empty.
func (d *directory) queueFiles(t *testing.T) map[queueKey]queueFile {
	t.Helper()
	all := map[queueKey]queueFile{}
	for _, k := range d.queuesOnDisk(t) {
		files := readFiles(t, d.store("consumequeue", k.topic, strconv.Itoa(int(k.id))))
		if len(files) == 0 {
			continue
		}
		first, err := strconv.ParseInt(files[0].name, 10, 64)
		require.NoError(t, err)
		q := queueFile{first: first / entryBytes}
		for i, f := range files {
			require.Len(t, f.name, 20, k.String())
			if i < len(files)-1 || !d.aborted(t) {
				require.Len(t, f.data, queueFileBytes, "%s: %s", k, f.name)
			}
			require.LessOrEqual(t, len(f.data), queueFileBytes, "%s: %s", k, f.name)
			q.entries = append(q.entries, f.data...)
		}
		q.entries = bytes.TrimRight(q.entries, "\x00")
		q.entries = q.entries[:len(q.entries):len(q.entries)]
		for len(q.entries)%entryBytes != 0 {
			q.entries = append(q.entries, 0)
		}
		all[k] = q
	}
	return all
}

// requireQueueFilesKept checks that no entry of before changed.
func requireQueueFilesKept(t *testing.T, before, after map[queueKey]queueFile, what string) {
	t.Helper()
	for k, was := range before {
		is, ok := after[k]
		require.True(t, ok, "%s: the files of %s are gone", what, k)
		require.Equal(t, was.first, is.first, "%s: first file of %s", what, k)
		require.GreaterOrEqual(t, len(is.entries), len(was.entries), "%s: %s lost entries", what, k)
		require.Equal(t, was.entries, is.entries[:len(was.entries)], "%s: entries of %s", what, k)
	}
}

// checkpointFile is `checkpoint`.
type checkpointFile struct {
	physicMsgTimestamp, logicsMsgTimestamp, indexMsgTimestamp int64
	masterFlushedOffset, confirmPhyOffset                     int64
}

func (d *directory) checkpoint(t *testing.T) checkpointFile {
	t.Helper()
	b, err := os.ReadFile(d.store("checkpoint"))
	require.NoError(t, err)
	require.Len(t, b, 4096)
	require.Empty(t, bytes.TrimRight(b[40:], "\x00"))
	v := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
	return checkpointFile{v(0), v(1), v(2), v(3), v(4)}
}

// minTimestamp is what Java trusts of the checkpoint.
func (c checkpointFile) minTimestamp() int64 {
	return max(0, min(c.physicMsgTimestamp, c.logicsMsgTimestamp)-3000)
}

// Sizes of an IndexFile of brokerProperties.
const (
	indexHeaderBytes = 40
	indexSlots       = 100
	indexMaxEntries  = 400
	indexEntriesAt   = indexHeaderBytes + 4*indexSlots
)

// indexFile is one IndexFile.
type indexFile struct {
	namedFile
	beginTimestamp, endTimestamp, beginPhyOffset, endPhyOffset int64
	slotsUsed, count                                           int32
}

func (f *indexFile) full() bool { return f.count >= indexMaxEntries }

func (d *directory) indexFiles(t *testing.T) (files []indexFile) {
	t.Helper()
	for _, n := range readFiles(t, d.store("index")) {
		require.Len(t, n.name, 17)
		require.Len(t, n.data, indexEntriesAt+entryBytes*indexMaxEntries, n.name)
		be := binary.BigEndian
		files = append(files, indexFile{n, int64(be.Uint64(n.data)), int64(be.Uint64(n.data[8:])),
			int64(be.Uint64(n.data[16:])), int64(be.Uint64(n.data[24:])), int32(be.Uint32(n.data[32:])),
			int32(be.Uint32(n.data[36:]))})
	}
	return files
}

// fullIndexEnds are the end times of the index files that are full.
func (d *directory) fullIndexEnds(t *testing.T) (times []int64) {
	for _, f := range d.indexFiles(t) {
		if f.full() {
			times = append(times, f.endTimestamp)
		}
	}
	return times
}

// logFiles are the names of the CommitLog's files as offsets, and the store time of the first record of each, 0 if there
// is none.
func (d *directory) logFiles(t *testing.T) (starts []codec.PhyOffset, times []int64) {
	t.Helper()
	for _, f := range readFiles(t, d.store("commitlog")) {
		require.Len(t, f.data, 1<<20, f.name)
		start, err := strconv.ParseInt(f.name, 10, 64)
		require.NoError(t, err)
		at := int64(0)
		if rec, err := codec.ParseRecord(f.data, false); err == nil && !rec.IsBlank() {
			at = rec.StoreTimestamp
		}
		starts, times = append(starts, codec.PhyOffset(start)), append(times, at)
	}
	return starts, times
}

// indexLoss is the part of the log whose keys Java loses when it recovers after a crash: it deletes the index files that
// were not full at the last checkpoint (IndexService.load) and makes the index anew from the file on where its recovery
// starts (CommitLog.isMappedFileMatchedRecover), which may lie behind.
func (d *directory) indexLoss(t *testing.T) phyRange {
	t.Helper()
	c := d.checkpoint(t)
	var r phyRange
	for _, f := range d.indexFiles(t) {
		if f.endTimestamp <= c.indexMsgTimestamp {
			r.from = max(r.from, codec.PhyOffset(f.endPhyOffset))
		}
	}
	starts, times := d.logFiles(t)
	r.to = starts[0]
	for i, start := range starts {
		if times[i] != 0 && times[i] <= c.minTimestamp() {
			r.to = start
		}
	}
	return r
}

// indexLost tells that a record's keys may be gone.
func (b *ledger) indexLost(p codec.PhyOffset) bool {
	for _, r := range b.lostKeys {
		if r.from <= p && p < r.to {
			return true
		}
	}
	return false
}

// notForeign matches what Skylark writes below the store's directory.
var notForeign = regexp.MustCompile(`^(commitlog|consumequeue|consumequeue_ext|index|recovery|lock|abort|checkpoint)(/|$)|` +
	`^(queueCheckpoint|batchconsumequeue|timerwheel|timerlog)(/|$)|` +
	`^config/(timercheck|timermetrics|transactionMetrics|popProgress)(\.bak)?(\.tmp)?$|` +
	`^config/(topics|subscriptionGroup|consumerOffset|lmqConsumerOffset|delayOffset|consumerFilter|messageRequestMode|` +
	`queueLocks)\.json(\.bak)?(\.tmp)?$`)

// foreignFiles are the sums of the files that belong to what Skylark does not serve, as compaction.
func (d *directory) foreignFiles(t *testing.T) map[string][sha256.Size]byte {
	t.Helper()
	sums := map[string][sha256.Size]byte{}
	require.NoError(t, filepath.WalkDir(d.store(), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		require.NoError(t, err)
		name, err := filepath.Rel(d.store(), path)
		require.NoError(t, err)
		switch {
		case notForeign.MatchString(filepath.ToSlash(name)) && e.IsDir():
			return filepath.SkipDir
		case notForeign.MatchString(filepath.ToSlash(name)) || e.IsDir():
			return nil
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		sums[name] = sha256.Sum256(data)
		return nil
	}))
	return sums
}

// aborted tells that the store was not closed in order.
func (d *directory) aborted(t *testing.T) bool {
	_, err := os.Stat(d.store("abort"))
	if err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	return err == nil
}
