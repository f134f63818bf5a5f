package broker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

const configDir = "/data/config/"

// configFiles are the tables the broker keeps, with what a good one shows.
var configFiles = map[string]func(b *testBroker) bool{
	"topics.json": func(b *testBroker) bool {
		t := b.topics.Get("T")
		return t != nil && t.Config.ReadQueueNums == 3
	},
	"subscriptionGroup.json": func(b *testBroker) bool {
		g := b.groups.Get("G")
		return g != nil && g.Config.RetryMaxTimes == 5
	},
	"consumerOffset.json": func(b *testBroker) bool {
		at, ok := b.offsets.Query("G", "T", 1)
		return ok && at == 2
	},
	"consumerFilter.json": func(b *testBroker) bool { return b.filters.Lookup("T", "G") != nil },
	"delayOffset.json":    func(b *testBroker) bool { return strings.Contains(delayTable(b), `3:1`) },
}

// delayTable is GET_ALL_DELAY_OFFSET.
func delayTable(b *testBroker) string {
	b.t.Helper()
	return string(b.mustCall(codec.ReqGetAllDelayOffset, nil, nil).Body)
}

// configImage is a file system with good tables, stopped cleanly.
func configImage(t *testing.T) *vfs.MemFS {
	fsys := vfs.NewMem()
	b := start(t, setup{fs: fsys, virtual: true, conf: "enablePropertyFilter=true\n"})
	b.createTopic("T", 3, 6)
	g, err := body.Encode(&body.SubscriptionGroupConfig{GroupName: "G", ConsumeEnable: true, RetryMaxTimes: 5,
		RetryQueueNums: 1})
	require.NoError(t, err)
	require.Equal(t, codec.RespSuccess, b.call(codec.ReqUpdateAndCreateSubscriptionGroup, nil, g).Code)
	for range 3 {
		b.mustSend("T", 1, "", "m")
	}
	b.waitQueue("T", 1, 3)
	b.commit("G", "T", 1, 2)
	b.beat("c1", consumer(t, "G", 1, "T a > 5"))
	b.mustSend("T", 0, "DELAY\x013", "late")
	time.Sleep(11 * time.Second)
	b.waitQueue("T", 0, 1)
	b.peer.Close()
	b.stop()
	for name := range configFiles { // the state in force is the backup too
		data, err := vfs.ReadFile(fsys, configDir+name)
		require.NoError(t, err, name)
		require.NoError(t, vfs.WriteFileAtomic(fsys, configDir+name+".bak", data, false))
	}
	return fsys
}

// commit stores an offset of a group.
func (p *peer) commit(groupName, topicName string, queueID int32, at codec.QueueOffset) {
	p.t.Helper()
	p.mustCall(codec.ReqUpdateConsumerOffset, &codec.UpdateConsumerOffsetRequestHeader{ConsumerGroup: groupName,
		Topic: topicName, QueueID: queueID, CommitOffset: at}, nil)
}

// Case B18 (a) to (c): a damaged table is read from its backup, and the damage is kept.
func TestDamagedTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		image := configImage(t)
		kinds := map[string]func(good []byte) []byte{
			"whole":   func(good []byte) []byte { return good },
			"NULs":    func(good []byte) []byte { return make([]byte, len(good)) },
			"rubbish": func(good []byte) []byte { return append(bytes.Clone(good), `"x":1}}`...) },
			"empty":   func(good []byte) []byte { return nil },
			"cut":     func(good []byte) []byte { return good[:len(good)/2] },
			"missing": nil,
		}
		for kind, damage := range kinds {
			for name, good := range configFiles {
				fsys := image.CloneAll()
				text, err := vfs.ReadFile(fsys, configDir+name)
				require.NoError(t, err)
				if damage == nil {
					require.NoError(t, fsys.Remove(configDir+name))
				} else {
					require.NoError(t, vfs.WriteFileAtomic(fsys, configDir+name, damage(text), false))
				}
				b := start(t, setup{fs: fsys, virtual: true, conf: "enablePropertyFilter=true\n"})
				for other, shows := range configFiles {
					require.True(t, shows(b), "%s of %s: %s is not in force", kind, name, other)
				}
				require.True(t, good(b))
				if kind != "whole" {
					require.Contains(t, b.log.String(), name, "%s: the operator is told", kind)
				}
				b.peer.Close()
				b.stop()
				if kind != "whole" && kind != "missing" {
					require.Equal(t, [][]byte{damage(text)}, keptAside(t, fsys, name), "%s of %s", kind, name)
				}
			}
		}
	})
}

// keptAside are the damaged originals of a table.
func keptAside(t *testing.T, fsys vfs.FS, name string) (out [][]byte) {
	t.Helper()
	names, err := fsys.List("/data/config")
	require.NoError(t, err)
	for _, n := range names {
		if strings.HasPrefix(n, name) && strings.Contains(n, ".damaged-") {
			data, err := vfs.ReadFile(fsys, configDir+n)
			require.NoError(t, err)
			if len(data) == 0 {
				data = nil
			}
			out = append(out, data)
		}
	}
	return out
}

// Case B18 (d): both are damaged. The broker starts, says loudly which table is empty, and keeps both
// originals.
func TestDamagedTablesAndBackups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		image := configImage(t)
		for name, good := range configFiles {
			fsys := image.CloneAll()
			for _, file := range []string{name, name + ".bak"} {
				require.NoError(t, vfs.WriteFileAtomic(fsys, configDir+file, []byte("\x00\x00damaged "+file), false))
			}
			b := start(t, setup{fs: fsys, virtual: true, conf: "enablePropertyFilter=true\n"})
			if name != "delayOffset.json" { // levels begin at the front again: delivered twice, none lost
				require.False(t, good(b), name)
			}
			said := false
			for line := range strings.Lines(b.log.String()) {
				said = said || strings.Contains(line, "level=ERROR") && strings.Contains(line, "TABLE IS EMPTY") &&
					strings.Contains(line, configDir+name)
			}
			require.True(t, said, "%s: %s", name, b.log)
			b.mustSend("T2", 0, "", "the broker works")
			b.peer.Close()
			b.stop()
			require.ElementsMatch(t, [][]byte{[]byte("\x00\x00damaged " + name),
				[]byte("\x00\x00damaged " + name + ".bak")}, keptAside(t, fsys, name), name)
		}
	})
}

// Case B18 (e): whoever copies the tables while they shrink gets a whole one each time.
func TestCopiesOfShrinkingTables(t *testing.T) {
	b := startBroker(t, "flushConsumerOffsetInterval=1\n")
	const groups = 40
	for i := range groups {
		name := fmt.Sprintf("group-%03d", i)
		g, err := body.Encode(&body.SubscriptionGroupConfig{GroupName: name, ConsumeEnable: true,
			RetryQueueNums: 1})
		require.NoError(t, err)
		require.Equal(t, codec.RespSuccess, b.call(codec.ReqUpdateAndCreateSubscriptionGroup, nil, g).Code)
		b.createTopic(fmt.Sprintf("topic-%03d", i), 1, 6)
		b.mustSend(fmt.Sprintf("topic-%03d", i), 0, "", "m")
		b.commit(name, fmt.Sprintf("topic-%03d", i), 0, 1)
	}
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		copies := 0
		defer func() { done <- copies }()
		for ; ; copies++ {
			select {
			case <-stop:
				return
			default:
			}
			for name, v := range map[string]any{"topics.json": &body.TopicConfigSerializeWrapper{},
				"subscriptionGroup.json": &body.SubscriptionGroupWrapper{},
				"consumerOffset.json":    &body.ConsumerOffsetSerializeWrapper{}} {
				data, err := os.ReadFile(filepath.Join(b.s.dir, "config", name))
				if os.IsNotExist(err) {
					continue
				}
				if err == nil {
					err = body.Decode(data, v)
				}
				if err != nil {
					t.Errorf("copy %d of %s: %v", copies, name, err)
					return
				}
			}
		}
	}()
	for i := range groups {
		b.mustCall(codec.ReqDeleteSubscriptionGroup, &codec.DeleteSubscriptionGroupRequestHeader{
			GroupName: fmt.Sprintf("group-%03d", i), CleanOffset: true}, nil)
		b.mustCall(codec.ReqDeleteTopicInBroker, &codec.TopicRequestHeader{Topic: fmt.Sprintf("topic-%03d", i)},
			nil)
	}
	close(stop)
	require.Positive(t, <-done)
	b = b.restart()
	require.Nil(t, b.groups.Get("group-000"))
	_, found := b.offsets.Query("group-000", "topic-000", 0)
	require.False(t, found)
}

// A table that cannot be read at all, and that nobody says is damaged, stops the start: an empty one would
// overwrite it.
func TestUnreadableTable(t *testing.T) {
	for name := range configFiles {
		fsys := vfs.NewMem()
		require.NoError(t, vfs.MkdirAllSync(fsys, "/data/config"))
		require.NoError(t, vfs.WriteFileAtomic(fsys, configDir+name, []byte("{}"), false))
		broken := errorfs.Wrap(fsys, errorfs.MustParse(`(read|rename "*/`+name+`*" err EIO)`))
		_, err := tryStart(t, setup{fs: broken, conf: "enablePropertyFilter=true\n"})
		require.ErrorContains(t, err, name)
		files, mappings := fsys.Handles()
		require.Zero(t, files, name)
		require.Zero(t, mappings, name)
		data, err := vfs.ReadFile(fsys, configDir+name)
		require.NoError(t, err)
		require.Equal(t, "{}", string(data))
	}
}

// Offsets are there after a stop, and after a kill those of the last flushConsumerOffsetInterval.
func TestOffsetsSurvive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true})
		for range 5 {
			b.mustSend("T", 0, "", "m")
		}
		b.waitQueue("T", 0, 5)
		query := func() codec.QueueOffset {
			at, ok := b.offsets.Query("G", "T", 0)
			require.True(t, ok)
			return at
		}
		b.beat("c1", consumer(t, "G", 1, "T *"))
		b.commit("G", "T", 0, 3)
		b = b.restart()
		require.EqualValues(t, 3, query())
		b.commit("G", "T", 0, 4)
		time.Sleep(6 * time.Second)
		b.commit("G", "T", 0, 5)
		b = b.kill()
		require.EqualValues(t, 4, query())
	})
}
