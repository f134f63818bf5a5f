package store

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// awaitIndex waits until every dispatched record is indexed.
func awaitIndex(t testing.TB, s *MessageStore) {
	t.Helper()
	require.Eventually(t, func() bool { return s.DispatchBehindBytes() == 0 && s.index.behind() == 0 }, testWait, testTick)
}

// indexContents are the index files in the order of their names.
func indexContents(t *testing.T, fs vfs.FS, dir string) []string {
	t.Helper()
	files := readTree(t, fs, path.Join(dir, indexDirName))
	var contents []string
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range files {
			if !yield(name) {
				return
			}
		}
	}) {
		contents = append(contents, string(files[name]))
	}
	return contents
}

// TestIndexIsJavas opens the index of a Java broker, and builds its own from the same log: byte for byte the same.
func TestIndexIsJavas(t *testing.T) {
	fs := vfs.NewMem()
	m := unpackJava(t, fs, "/store", "java-5.3.3-clean")
	java := indexContents(t, fs, "/store")
	require.NotEmpty(t, java)
	f := func() {
		t.Helper()
		s := openStore(t, javaOptions(fs, "/store"))
		awaitIndex(t, s)
		found := 0
		for topic, queues := range m.Topics {
			for _, queue := range queues {
				for _, msg := range queue.Messages {
					rec, err := readRecord(s, msg.PhyOffset)
					require.NoError(t, err)
					for key := range eachKey(propertyValue(rec.Properties, keysPattern)) {
						recs, _, _ := s.QueryByKey(topic, string(key), 64, 0, 1<<60)
						require.True(t, slices.ContainsFunc(recs, func(b []byte) bool {
							return recordPhyOffset(b) == int64(msg.PhyOffset)
						}), "%s of %s", key, topic)
						found++
					}
				}
			}
		}
		require.Greater(t, found, 20)
		closeStore(t, s)
		ours := indexContents(t, fs, "/store")
		require.Equal(t, len(java), len(ours))
		for i := range java {
			require.True(t, java[i] == ours[i], "index file %d is not Java's", i)
		}
	}
	f()
	require.NoError(t, fs.RemoveAll("/store/index"))
	f()
}

func TestIndexHash(t *testing.T) {
	f := func(text string, want int32) {
		t.Helper()
		require.Equal(t, want, indexHash([]byte(text)))
	}
	f("", 0)
	f("T#k", 84*31*31+35*31+107)
	f("polygenelubricants", 0) // Integer.MIN_VALUE
	require.Negative(t, codec.JavaHash("Topic#key"))
	f("Topic#key", -codec.JavaHash("Topic#key"))
}

// TestIndexSurvivesFullDisk: keys wait for room on the disk, messages do not.
func TestIndexSurvivesFullDisk(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs, "/store")
	o.MaxHashSlotNum, o.MaxIndexNum = 50_000, 100_000 // the slots need more than the rest of the disk
	s := openStore(t, o)
	mustPut(t, s, testMessage("Topic", 0, "first"))
	awaitIndex(t, s)
	fs.SetLimit(fs.UsedBytes() + 10*vfs.PageSize)
	m := testMessage("Topic", 0, "second")
	m.Properties = codec.AppendProperty(nil, codec.PropKeys, "key")
	mustPut(t, s, m)
	awaitDispatch(t, s)
	require.Eventually(t, func() bool { return s.flags.has(flagIndexFileError) }, testWait, testTick)
	require.Equal(t, []string{"first", "second"}, bodies(t, s, "Topic", 0))
	require.Equal(t, ServiceNotAvailable, s.Put(testMessage("Topic", 0, "third")).Status)
	fs.SetLimit(0)
	require.Eventually(t, func() bool { return !s.flags.has(flagIndexFileError) }, testWait, testTick)
	awaitIndex(t, s)
	recs, _, _ := s.QueryByKey("Topic", "key", 10, 0, 1<<60)
	require.Len(t, recs, 1)
	mustPut(t, s, testMessage("Topic", 0, "third"))
}

// TestIndexFileRollback: a batch that cannot be written leaves the file as it was.
func TestIndexFileRollback(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs, "/store")
	o.MaxHashSlotNum, o.MaxIndexNum = 3, 4000
	require.NoError(t, fs.MkdirAll("/store/index"))
	f := newIndexFile(&o, "/store/index/20260101000000000")
	require.NoError(t, f.create(0, 0))
	keys := func(from, n int) []indexKey {
		var keys []indexKey
		for i := from; i < from+n; i++ {
			keys = append(keys, indexKey{hash: int32(i % 7), phyOffset: int64(i), storeTimestamp: 1000 + int64(i)})
		}
		return keys
	}
	n, err := f.append(keys(0, 50))
	require.NoError(t, err)
	require.Equal(t, 50, n)
	before, err := vfs.ReadFile(fs, f.path)
	require.NoError(t, err)
	fs.SetLimit(fs.UsedBytes())
	_, err = f.append(keys(50, 2000))
	require.True(t, diskFull(err), "%v", err)
	after, err := vfs.ReadFile(fs, f.path)
	require.NoError(t, err)
	require.Equal(t, before[:f.entryAt(f.header.count)], after[:f.entryAt(f.header.count)])
	fs.SetLimit(0)
	_, err = f.append(keys(50, 20))
	require.NoError(t, err)
	for hash := range int32(7) {
		var got []int64
		steps := maxIndexSteps
		require.NoError(t, f.walk(hash, 0, 1<<60, &steps, func(phyOffset int64) bool {
			got = append(got, phyOffset)
			return true
		}))
		var want []int64
		for i := int64(69); i >= 0; i-- {
			if i%7 == int64(hash) {
				want = append(want, i)
			}
		}
		require.Equal(t, want, got, "newest first")
	}
	require.NoError(t, f.close())
}

// TestIndexChainsEnd: chains that a damaged file bends into circles or out of the file end all the same.
func TestIndexChainsEnd(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs, "/store")
	o.MaxHashSlotNum, o.MaxIndexNum = 1, 100
	require.NoError(t, fs.MkdirAll("/store/index"))
	f := newIndexFile(&o, "/store/index/20260101000000000")
	require.NoError(t, f.create(0, 0))
	var keys []indexKey
	for i := range 50 {
		keys = append(keys, indexKey{hash: 5, phyOffset: int64(i), storeTimestamp: 1000})
	}
	_, err := f.append(keys)
	require.NoError(t, err)
	walk := func(steps int) (n int) {
		require.NoError(t, f.walk(5, 0, 1<<60, &steps, func(int64) bool { n++; return true }))
		return n
	}
	require.Equal(t, 50, walk(maxIndexSteps))
	require.Equal(t, 7, walk(7), "steps are bounded")
	bend := func(number, prev byte) {
		_, err := f.file.WriteAt([]byte{0, 0, 0, prev}, f.entryAt(int32(number))+16)
		require.NoError(t, err)
	}
	bend(30, 30)
	require.Equal(t, 21, walk(maxIndexSteps), "itself")
	bend(30, 45)
	require.Equal(t, 21, walk(maxIndexSteps), "back")
	bend(30, 99)
	require.Equal(t, 21, walk(maxIndexSteps), "out")
	require.NoError(t, f.close())
}

func TestNextIndexName(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		require.Equal(t, want, nextIndexName(name))
	}
	f("20261130235959998", "20261130235959999")
	f("20261130235959999", "20261130235960000")
}

// TestIndexNamesFollowTheClock even when it is set back.
func TestIndexNamesFollowTheClock(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs, "/store")
	o.MaxIndexNum = 5
	s := openStore(t, o)
	for i := range 20 {
		m := testMessage("Topic", 0, "x")
		m.Properties = codec.AppendProperty(nil, codec.PropKeys, fmt.Sprint("k", i))
		mustPut(t, s, m)
	}
	awaitIndex(t, s)
	names, err := fs.List("/store/index")
	require.NoError(t, err)
	require.Len(t, names, 5)
	for _, name := range names {
		require.Len(t, name, indexFileNameDigits)
		require.True(t, strings.HasPrefix(name, time.Now().Local().Format("200601")))
	}
	for i := range 20 {
		recs, _, _ := s.QueryByKey("Topic", fmt.Sprint("k", i), 10, 0, 1<<60)
		require.Len(t, recs, 1)
	}
}
