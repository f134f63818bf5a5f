package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// queuePath is a queue's directory.
func queuePath(topicName string, queueID int) string {
	return fmt.Sprintf("/data/consumequeue/%s/%d", topicName, queueID)
}

const firstLog = "/data/commitlog/00000000000000000000"

// patch overwrites bytes of a file.
func patch(t *testing.T, fsys vfs.FS, name string, at int64, data []byte) {
	t.Helper()
	f, err := fsys.OpenReadWrite(name)
	require.NoError(t, err)
	_, err = f.WriteAt(data, at)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// reopen starts a broker on a changed copy of the files.
func (b *testBroker) reopen(change func(fsys *vfs.MemFS)) *testBroker {
	b.t.Helper()
	s := b.s
	fsys := s.fs.(*vfs.MemFS).CloneAll()
	change(fsys)
	s.fs = fsys
	return start(b.t, s)
}

// Case B14 at the broker: the last record is torn, by every kind of damage. What is whole is served, what is
// torn never, and its queue offset is given again.
func TestTornLastRecord(t *testing.T) {
	b := start(t, setup{fs: vfs.NewMem()})
	var last codec.PhyOffset
	for i := range 100 {
		last = offsetOf(t, b.mustSend("T", i%4, "", fmt.Sprintf("message %02d %s", i, strings.Repeat("x", 100))))
	}
	for q := range 4 {
		b.waitQueue("T", q, 25)
	}
	raw, err := b.store.ReadRecord(last, nil)
	require.NoError(t, err)
	n := len(raw)
	kinds := map[string]func(fsys vfs.FS){
		"second half zero": func(fsys vfs.FS) {
			patch(t, fsys, firstLog, int64(last)+int64(n/2), make([]byte, n-n/2))
		},
		"one bit of the body": func(fsys vfs.FS) {
			patch(t, fsys, firstLog, int64(last)+int64(n/2), []byte{raw[n/2] ^ 1})
		},
		"only length and magic": func(fsys vfs.FS) { patch(t, fsys, firstLog, int64(last)+8, make([]byte, n-8)) },
		"length beyond the file": func(fsys vfs.FS) {
			patch(t, fsys, firstLog, int64(last), []byte{0x7F, 0xFF, 0xFF, 0xF0})
		},
	}
	for kind, damage := range kinds {
		c := b.reopen(func(fsys *vfs.MemFS) { damage(fsys) })
		require.Contains(t, c.log.String(), "recovery cut a file", kind)
		for _, end := range []int{99, 109} {
			messages := 0
			for q := range 4 {
				for i, rec := range c.all("T", q) {
					require.EqualValues(t, i, rec.QueueOffset, "%s: queue %d has a gap", kind, q)
					require.NotContains(t, string(rec.Body), "message 99")
					messages++
				}
				answer, h := c.pull("T", q, 0)
				require.Equal(t, codec.RespSuccess, answer.Code)
				require.EqualValues(t, c.store.MaxOffset("T", int32(q)), h.MaxOffset)
			}
			require.Equal(t, end, messages, kind)
			if end == 109 {
				break
			}
			require.Equal(t, "24", c.mustSend("T", 3, "", "in its place").Get("queueOffset"), kind)
			for range 9 {
				c.mustSend("T", 3, "", "more")
			}
			c.waitQueue("T", 3, 34)
			c = c.kill()
		}
	}
}

// Case B15 at the broker: queue files that are missing or damaged are built again from the log.
func TestDamagedQueueFiles(t *testing.T) {
	b := start(t, setup{fs: vfs.NewMem(), conf: "mappedFileSizeConsumeQueue=400\n"}) // 20 entries a file
	for _, topicName := range []string{"T1", "T2"} {
		for i := range 100 {
			b.mustSend(topicName, i%4, "TAGS\x01A", fmt.Sprintf("%s %d", topicName, i))
		}
		for q := range 4 {
			b.waitQueue(topicName, q, 25)
		}
	}
	lastFile := queuePath("T1", 0) + "/00000000000000000400"
	kinds := map[string]func(fsys *vfs.MemFS){
		"the tree is gone": func(fsys *vfs.MemFS) { require.NoError(t, fsys.RemoveAll("/data/consumequeue")) },
		"a topic is gone": func(fsys *vfs.MemFS) {
			require.NoError(t, fsys.RemoveAll("/data/consumequeue/T1"))
		},
		"the last file gone":  func(fsys *vfs.MemFS) { require.NoError(t, fsys.Remove(lastFile)) },
		"the last file empty": func(fsys *vfs.MemFS) { truncate(t, fsys, lastFile, 0) },
		"the last file short": func(fsys *vfs.MemFS) { truncate(t, fsys, lastFile, 7) },
		"the last file zeros": func(fsys *vfs.MemFS) { patch(t, fsys, lastFile, 0, make([]byte, 400)) },
		"an empty next file": func(fsys *vfs.MemFS) {
			create(t, fsys, queuePath("T1", 0)+"/00000000000000000800")
		},
		"an empty next of log": func(fsys *vfs.MemFS) { create(t, fsys, "/data/commitlog/00000000000001048576") },
	}
	check := func(c *testBroker, kind string) {
		t.Helper()
		for _, topicName := range []string{"T1", "T2"} {
			for q := range 4 {
				lo := c.mustCall(codec.ReqGetMinOffset, &codec.TopicQueueRequestHeader{Topic: topicName,
					QueueID: int32(q)}, nil)
				hi := c.mustCall(codec.ReqGetMaxOffset, &codec.GetMaxOffsetRequestHeader{Topic: topicName,
					QueueID: int32(q)}, nil)
				require.Equal(t, []string{"0", "25"}, []string{lo.Get("offset"), hi.Get("offset")}, "%s: %s %d", kind,
					topicName, q)
				var got []string
				for len(got) < 25 { // a pull ends with the queue file
					answer, _ := c.pull(topicName, q, codec.QueueOffset(len(got)))
					require.Equal(t, codec.RespSuccess, answer.Code, kind)
					got = append(got, bodies(t, answer)...)
				}
				require.Len(t, got, 25, kind)
				require.Equal(t, fmt.Sprint(topicName, " ", 24*4+q), got[24], kind)
			}
		}
		require.Equal(t, "25", c.mustSend("T1", 0, "", "next").Get("queueOffset"), kind)
	}
	for kind, damage := range kinds {
		check(b.reopen(damage), kind+", killed")
	}
	b.peer.Close()
	b.stop()
	for kind, damage := range kinds {
		check(b.reopen(damage), kind+", stopped")
	}
}

func truncate(t *testing.T, fsys vfs.FS, name string, size int64) {
	t.Helper()
	f, err := fsys.OpenReadWrite(name)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

func create(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// Case B22: offsets of deleted topics are gone, and commits that make no sense change nothing.
func TestOffsetsOfDeletedTopics(t *testing.T) {
	b := start(t, setup{fs: vfs.NewMem()})
	b.beat("c1", consumer(t, "G", 1, "T *"))
	fill := func(n int) {
		for i := range n {
			b.mustSend("T", 0, "", fmt.Sprint(i))
		}
		b.waitQueue("T", 0, n)
	}
	query := func() *codec.Command {
		return b.call(codec.ReqQueryConsumerOffset, &codec.QueryConsumerOffsetRequestHeader{ConsumerGroup: "G",
			Topic: "T"}, nil)
	}
	fill(20)
	b.commit("G", "T", 0, 20)
	require.Equal(t, "20", query().Get("offset"))
	for range 2 {
		b.mustCall(codec.ReqDeleteTopicInBroker, &codec.TopicRequestHeader{Topic: "T"}, nil)
		b.createTopic("T", 4, 6)
		require.Contains(t, []string{"", "0"}, query().Get("offset"))
		fill(10)
		answer, h := b.pull("T", 0, 0)
		require.Len(t, bodies(t, answer), 10)
		require.EqualValues(t, 10, h.MaxOffset)
		b.commit("G", "T", 0, 10)
		b = b.restart()
		b.beat("c1", consumer(t, "G", 1, "T *"))
	}

	b.commit("G", "T", 0, 7)
	stats := func() *bodyStats { return b.lag("G", "T", 0) }
	f := func(header *codec.UpdateConsumerOffsetRequestHeader) {
		t.Helper()
		answer := b.call(codec.ReqUpdateConsumerOffset, header, nil)
		require.NotEqual(t, codec.RespSuccess, answer.Code)
		require.NotEmpty(t, answer.Remark)
		require.Equal(t, "7", query().Get("offset"))
		require.EqualValues(t, 3, stats().lag)
	}
	before := b.offsets.Wrapper()
	commit := func(groupName, topicName string, queueID int32,
		at codec.QueueOffset) *codec.UpdateConsumerOffsetRequestHeader {
		return &codec.UpdateConsumerOffsetRequestHeader{ConsumerGroup: groupName, Topic: topicName,
			QueueID: queueID, CommitOffset: at}
	}
	f(commit("G", "T", 0, -1))
	f(commit("G", "T", 0, -1<<63))
	f(commit("G", "T", 99, 1))
	f(commit("G", "T", -1, 1))
	f(commit("G", "unknown", 0, 1))
	f(commit("unknown", "T", 0, 1))
	require.Equal(t, before.OffsetTable, b.offsets.Wrapper().OffsetTable, "no entry was made")

	b.commit("G", "T", 0, 1010) // beyond the end: taken, but a pull there is told the end
	answer, h := b.pull("T", 0, 1010)
	require.Equal(t, codec.RespPullOffsetMoved, answer.Code)
	require.EqualValues(t, 10, h.NextBeginOffset)
	require.EqualValues(t, 0, stats().lag)
	// (e)
	b.createTopic("fresh", 1, 6)
	fresh := func() *codec.Command {
		return b.call(codec.ReqQueryConsumerOffset, &codec.QueryConsumerOffsetRequestHeader{ConsumerGroup: "new",
			Topic: "fresh"}, nil)
	}
	require.Equal(t, codec.RespQueryNotFound, fresh().Code, "an empty queue")
	b.mustSend("fresh", 0, "", "m")
	b.waitQueue("fresh", 0, 1)
	require.Equal(t, "0", fresh().Get("offset"))
}
