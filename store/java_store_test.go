package store

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// javaManifest is the text twin of a store directory that a Java 5.3.3 broker wrote: what its own client read from it.
type javaManifest struct {
	Topics map[string]map[int32]javaQueue `json:"topics"`
}

type javaQueue struct {
	Min      QueueOffset   `json:"min"`
	Max      QueueOffset   `json:"max"`
	Messages []javaMessage `json:"messages"`
}

type javaMessage struct {
	QueueOffset    QueueOffset `json:"queueOffset"`
	PhyOffset      PhyOffset   `json:"phyOffset"`
	Size           int         `json:"size"`
	Tags           string      `json:"tags"`
	StoreTimestamp int64       `json:"storeTimestamp"`
	BornTimestamp  int64       `json:"bornTimestamp"`
	SysFlag        int32       `json:"sysFlag"`
	BodyCRC        uint32      `json:"bodyCRC"`
	BodySize       int         `json:"bodySize"`
	Body           string      `json:"body"`
}

// unpackJava puts a captured directory into a file system.
func unpackJava(t *testing.T, fs vfs.FS, dir, name string) javaManifest {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".tar.gz")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		target := path.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			require.NoError(t, fs.MkdirAll(target))
			continue
		}
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFileAtomic(fs, target, data, false))
	}
	text, err := os.ReadFile("testdata/" + name + ".json")
	require.NoError(t, err)
	var m javaManifest
	require.NoError(t, json.Unmarshal(text, &m))
	return m
}

// javaOptions are those of the captured broker.
func javaOptions(fs vfs.FS, dir string) Options {
	o := DefaultOptions(dir)
	o.FS = fs
	o.MappedFileSizeCommitLog = 1 << 20
	o.MappedFileSizeConsumeQueue = 6000
	o.MaxHashSlotNum, o.MaxIndexNum = 100, 400
	o.DelayTagsCode = func(level int, storeTimestamp int64) int64 {
		delays := []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, 1 * time.Minute,
			2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 5 * time.Minute, 6 * time.Minute, 7 * time.Minute,
			8 * time.Minute, 9 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour}
		return storeTimestamp + delays[min(level, len(delays))-1].Milliseconds()
	}
	return o
}

// checkJava compares every queue with the manifest.
func checkJava(t *testing.T, s *MessageStore, m javaManifest) {
	t.Helper()
	for topic, queues := range m.Topics {
		for queueID, want := range queues {
			cq := s.queues.find(topic, queueID)
			require.NotNil(t, cq, "%s-%d", topic, queueID)
			require.EqualValues(t, want.Min, cq.minOffset.Load(), "%s-%d", topic, queueID)
			require.EqualValues(t, want.Max, cq.maxOffset.Load(), "%s-%d", topic, queueID)
			require.EqualValues(t, want.Max, cq.next.Load(), "%s-%d", topic, queueID)
			for _, msg := range want.Messages {
				e, ok := cq.entry(int64(msg.QueueOffset))
				require.True(t, ok)
				require.EqualValues(t, msg.PhyOffset, e.phyOffset)
				require.EqualValues(t, msg.Size, e.size)
				rec, err := readRecord(s, msg.PhyOffset)
				require.NoError(t, err)
				require.Equal(t, topic, string(rec.Topic))
				require.Equal(t, queueID, rec.QueueID)
				require.Equal(t, msg.StoreTimestamp, rec.StoreTimestamp)
				require.Equal(t, msg.BornTimestamp, rec.BornTimestamp)
				require.Equal(t, msg.SysFlag, rec.SysFlag)
				require.Equal(t, msg.BodyCRC, rec.BodyCRC)
				tags, _ := rec.Property(codec.PropTags)
				require.Equal(t, msg.Tags, string(tags))
				if msg.Body != "" && rec.SysFlag&codec.SysFlagCompressed == 0 {
					require.True(t, strings.HasPrefix(string(rec.Body), strings.TrimSuffix(msg.Body, "...")))
				}
			}
		}
	}
}

func TestStoreOpensJavaDirectory(t *testing.T) {
	f := func(fs vfs.FS, dir, name string, queuesLost bool) {
		t.Helper()
		m := unpackJava(t, fs, dir, name)
		queueDir := path.Join(dir, consumeQueueDirName)
		before := readTree(t, fs, queueDir)
		if queuesLost {
			require.NoError(t, fs.RemoveAll(queueDir))
		}
		s := openStore(t, javaOptions(fs, dir))
		checkJava(t, s, m)
		for name, content := range before {
			require.Equal(t, content, readTree(t, fs, path.Dir(name))[name][:len(content)], "%s is not Java's any more", name)
		}
		orders := m.Topics["GoldenOrders"][0]
		for i := range 50 {
			r := mustPut(t, s, testMessage("GoldenOrders", 0, strings.Repeat("go", 20000)))
			require.Equal(t, orders.Max+QueueOffset(i), r.QueueOffset)
		}
		awaitDispatch(t, s)
		closeStore(t, s)
		s = openStore(t, javaOptions(fs, dir))
		require.EqualValues(t, orders.Max+50, s.queues.find("GoldenOrders", 0).maxOffset.Load())
		queue := m.Topics["GoldenOrders"][0]
		queue.Max += 50
		m.Topics["GoldenOrders"][0] = queue
		checkJava(t, s, m)
		closeStore(t, s)
		checkJavaLayout(t, fs, dir)
	}
	for _, name := range []string{"java-5.3.3-clean", "java-5.3.3-killed", "java-5.3.3-timer"} {
		f(vfs.NewMem(), "/store", name, false)
		f(vfs.NewMem(), "/store", name, true)
		f(vfs.OS, t.TempDir(), name, false)
	}
}

// Java's broker deleted a topic and stopped without another message: the marks of our last stop are older and must not
// bring the topic back. Without Java in between its files count as lost, and are made again.
func TestTopicDeletedByJavaStaysDeleted(t *testing.T) {
	f := func(foreign, crashed bool) {
		t.Helper()
		fs := vfs.NewMem()
		o := javaOptions(fs, "/store")
		s := openStore(t, o)
		for range 10 {
			mustPut(t, s, testMessage("Gone", 0, "body"))
			mustPut(t, s, testMessage("Stays", 0, "body"))
		}
		awaitDispatch(t, s)
		closeStore(t, s)
		require.NoError(t, fs.RemoveAll("/store/consumequeue/Gone"))
		if foreign {
			require.NoError(t, vfs.WriteFileAtomic(fs, "/store/lock", []byte(javaLockContent), false))
		}
		if crashed {
			require.NoError(t, vfs.WriteFileAtomic(fs, "/store/abort", nil, false))
		}
		s = openStore(t, o)
		want := 10
		if foreign && !crashed {
			want = 0
		}
		require.EqualValues(t, want, s.MaxOffset("Gone", 0))
		require.EqualValues(t, 10, s.MaxOffset("Stays", 0))
		closeStore(t, s)
		s = openStore(t, o)
		require.EqualValues(t, want, s.MaxOffset("Gone", 0))
		closeStore(t, s)
	}
	f(false, false)
	f(true, false)
	f(true, true) // the scan starts at the first file, and Java's would bring the topic back, too
}

// checkJavaLayout looks at what Java's load looks at: names and lengths.
func checkJavaLayout(t *testing.T, fs vfs.FS, dir string) {
	t.Helper()
	for name, content := range readTree(t, fs, path.Join(dir, "commitlog")) {
		require.Len(t, path.Base(name), 20)
		require.Len(t, content, 1<<20, name)
	}
	for name, content := range readTree(t, fs, path.Join(dir, consumeQueueDirName)) {
		require.Len(t, path.Base(name), 20)
		require.Len(t, content, 6000, name)
	}
	checkpoint, err := vfs.ReadFile(fs, path.Join(dir, checkpointFileName))
	require.NoError(t, err)
	require.Len(t, checkpoint, 4096)
	lock, err := vfs.ReadFile(fs, path.Join(dir, lockFileName))
	require.NoError(t, err)
	require.Len(t, lock, 4)
	_, err = fs.Stat(path.Join(dir, abortFileName))
	require.Error(t, err)
}

// readTree reads all files below a directory.
func readTree(t *testing.T, fs vfs.FS, dir string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	names, err := fs.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		name = path.Join(dir, name)
		info, err := fs.Stat(name)
		require.NoError(t, err)
		if info.IsDir() {
			for below, content := range readTree(t, fs, name) {
				files[below] = content
			}
			continue
		}
		files[name], err = vfs.ReadFile(fs, name)
		require.NoError(t, err)
	}
	return files
}
