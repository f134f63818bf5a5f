package broker

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

// batchEntry is one message of a batch as clients encode it.
func batchEntry(t *testing.T, data, props string) []byte {
	t.Helper()
	b, err := codec.AppendBatchEntry(nil, codec.BatchEntry{Body: []byte(data), Properties: []byte(props)})
	require.NoError(t, err)
	return b
}

func batchRequest(topicName string, props string, data []byte) *codec.Command {
	req := sendWith(topicName, data, func(h *codec.SendMessageHeader) {
		h.Batch, h.Properties = true, codec.Field{Value: []byte(props)}
	})
	req.Code = codec.ReqSendBatchMessage
	return req
}

// property makes a property with a value of n bytes.
func property(name string, n int) string { return name + "\x01" + strings.Repeat("v", n) }

// Case B05: every limit holds on every path, and nothing that was refused is found after a kill.
func TestSizeLimits(t *testing.T) {
	const limit = 4 << 20
	b := start(t, setup{fs: vfs.NewMem(),
		conf: "mappedFileSizeCommitLog=16777216\nautoCreateSubscriptionGroup=true\n"})
	stored := map[string]int{}
	var largest *codec.Command
	f := func(name string, code int, req *codec.Command) *codec.Command {
		t.Helper()
		answer := b.do(req)
		require.Equal(t, code, answer.Code, "%s: %s", name, answer.Remark)
		if code == codec.RespSuccess {
			stored[name]++
		} else {
			require.NotEmpty(t, answer.Remark)
		}
		return answer
	}
	plain := func(props string, data []byte) *codec.Command { return sendRequest("T", 0, props, data) }
	// (a)
	largest = f("a", codec.RespSuccess, plain("", make([]byte, limit)))
	f("a+1", codec.RespMessageIllegal, plain("", make([]byte, limit+1)))
	// (b): what the broker adds counts: UNIQ_KEY, MSG_REGION, TRACE_ON and CLUSTER.
	own := len(b.ownProperties) + len("UNIQ_KEY") + 32 + 2
	f("b", codec.RespSuccess, plain(property("p", 32600), []byte("b")))
	f("b max", codec.RespSuccess, plain(property("p", codec.MaxPropertiesBytes-own-3), []byte("b")))
	f("b max+1", codec.RespMessageIllegal, plain(property("p", codec.MaxPropertiesBytes-own-2), []byte("b")))
	f("b 32768", codec.RespMessageIllegal, plain(property("p", 32768-2), []byte("b")))
	f("b 70000", codec.RespMessageIllegal, plain(property("p", 70000), []byte("b")))
	// (c)
	good := batchEntry(t, "one", "k\x01v")
	at := func(e []byte, i int, v []byte) []byte { e = bytes.Clone(e); copy(e[i:], v); return e }
	bodyLenAt, propsLenAt := 16, 20+len("one")
	for name, bad := range map[string][]byte{
		"c properties length with the top bit": at(good, propsLenAt, []byte{0x80, 0x03}),
		"c properties beyond the entry":        at(good, propsLenAt, []byte{0x70, 0}),
		"c body beyond the buffer":             at(good, bodyLenAt, []byte{0, 0, 0x10, 0}),
		"c negative body":                      at(good, bodyLenAt, []byte{0xFF, 0xFF, 0xFF, 0xFF}),
		"c cut":                                good[:len(good)-1],
		"c rubbish":                            []byte("no batch"),
	} {
		f(name, codec.RespMessageIllegal, batchRequest("T", "", append(bytes.Clone(good), bad...)))
		f(name+" first", codec.RespMessageIllegal, batchRequest("T", "", append(bytes.Clone(bad), good...)))
	}
	// (d), and the same with a sum that is just legal.
	f("d", codec.RespMessageIllegal, batchRequest("T", property("p", 20000), append(bytes.Clone(good),
		batchEntry(t, "two", property("q", 20000))...)))
	f("d legal", codec.RespSuccess, batchRequest("T", property("p", 10000), append(bytes.Clone(good),
		batchEntry(t, "two", property("q", 20000))...)))
	// (e)
	entry := batchEntry(t, strings.Repeat("x", 1<<20), "")
	f("e", codec.RespMessageIllegal, batchRequest("T", "", bytes.Repeat(entry, 4)))
	f("e legal", codec.RespSuccess, batchRequest("T", "", bytes.Repeat(entry, 3)))
	// (f)
	f("f", codec.RespMessageIllegal, plain("", nil))
	f("f batch", codec.RespMessageIllegal, batchRequest("T", "", nil))
	f("f empty entry is one", codec.RespSuccess, batchRequest("T", "", batchEntry(t, "", "")))
	// (g)
	largestOffset := offsetOf(t, largest)
	b.beat("c1", consumer(t, "G", 1, "T *"))
	answer := b.call(codec.ReqConsumerSendMsgBack, &codec.ConsumerSendMsgBackRequestHeader{Offset: largestOffset,
		Group: "G", DelayLevel: 1, OriginMsgID: "m", OriginTopic: "T"}, nil)
	require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
	retry := codec.RetryTopic("G")
	b.waitQueue(retry, 0, 1)
	rec := b.all(retry, 0)[0]
	require.Equal(t, limit, len(rec.Body))
	require.EqualValues(t, 1, rec.ReconsumeTimes)

	messages := stored["a"] + stored["b"] + stored["b max"] + 2*stored["d legal"] + 3*stored["e legal"] + 1
	b.waitQueue("T", 0, messages)
	require.EqualValues(t, messages, b.store.MaxOffset("T", 0))
	b = b.kill()
	b.waitQueue("T", 0, messages)
	for i, rec := range b.all("T", 0) {
		require.EqualValues(t, i, rec.QueueOffset)
	}
	b.mustSend("T", 0, "", "after")
	b.waitQueue("T", 0, messages+1)
	require.Equal(t, messages+1, len(b.all("T", 0)))
	for _, rec := range b.all(retry, 0) { // twice if the delay offset was not written yet
		require.Equal(t, limit, len(rec.Body))
	}
	answer, h := b.pull("T", 0, 0)
	require.Equal(t, codec.RespSuccess, answer.Code)
	require.NotZero(t, h.NextBeginOffset)
}

// offsetOf is the position of the record a send answer tells of.
func offsetOf(t *testing.T, answer *codec.Command) codec.PhyOffset {
	t.Helper()
	_, at, err := codec.ParseOffsetMsgID(answer.Get("msgId"))
	require.NoError(t, err)
	return at
}

// topicNames are the names of case B07 that no door may let in.
var topicNames = []string{"", " ", "\t", strings.Repeat("n", 128), strings.Repeat("n", 70000), "a.b",
	"../../x", "a/b",
	`a\b`, "主题", "a\x00b", "a b", "a\nb", ".", "..", "a:b", "%00/../../y"}

// Case B07: what one door refuses the other refuses with the same words, and nothing is left of it.
func TestTopicNames(t *testing.T) {
	fsys := vfs.NewMem()
	b := start(t, setup{fs: fsys})
	b.pull("T", 0, 0) // makes the group
	before := b.topics.Len()
	files := tree(t, fsys, "/")
	create := func(name string) *codec.Command {
		return b.call(codec.ReqUpdateAndCreateTopic, &codec.CreateTopicRequestHeader{Topic: name,
			DefaultTopic: codec.AutoCreateTopicKey, ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6,
			TopicFilterType: "SINGLE_TAG"}, nil)
	}
	refusals := []int{codec.RespSystemError, codec.RespMessageIllegal, codec.RespInvalidParameter,
		codec.RespNoPermission}
	for _, name := range topicNames {
		sent, created := b.send(name, 0, "", []byte("b")), create(name)
		require.Contains(t, refusals, sent.Code, "%q", name)
		require.Contains(t, refusals, created.Code, "%q", name)
		require.Equal(t, created.Remark, sent.Remark, "%.20q", name)
		require.NotEmpty(t, sent.Remark)
		old := sendRequest(name, 0, "", []byte("b"))
		old.Code = codec.ReqSendMessage
		batch := b.do(batchRequest(name, "", batchEntry(t, "b", "")))
		require.Contains(t, refusals, batch.Code, "%q", name)
		list, err := body.Encode(&body.CreateTopicListRequestBody{TopicConfigList: []*body.TopicConfig{{TopicName: name,
			ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6, TopicFilterType: body.SingleTag}}})
		require.NoError(t, err)
		require.Contains(t, refusals, b.call(codec.ReqUpdateAndCreateTopicList, nil, list).Code, "%q", name)
		require.NotEqual(t, codec.RespSuccess, b.do(pullRequest("g", name, 0, 0, 0)).Code)
	}
	system := []string{codec.ScheduleTopic, codec.HalfTopic, codec.OpHalfTopic, codec.TransCheckMaxTimeTopic,
		codec.OffsetMovedEventTopic}
	for _, name := range system {
		answer := b.send(name, 0, "", []byte("b"))
		require.Equal(t, codec.RespNoPermission, answer.Code, name)
		require.Equal(t, "Sending message to topic["+name+"] is forbidden.", answer.Remark)
		require.Equal(t, codec.RespInvalidParameter, create(name).Code, name)
	}
	require.Equal(t, before, b.topics.Len())
	require.Equal(t, files, tree(t, fsys, "/"), "no file or directory")

	long := strings.Repeat("n", 127)
	b.mustSend(long, 3, "", "long")
	b.waitQueue(long, 3, 1)
	answer, _ := b.pull(long, 3, 0)
	require.Equal(t, []string{"long"}, bodies(t, answer))
	require.Equal(t, codec.RespSuccess, create(strings.Repeat("m", 127)).Code)
	b = b.restart()
	answer, _ = b.pull(long, 3, 0)
	require.Equal(t, []string{"long"}, bodies(t, answer))
}

// Case B07, last: a group whose retry topic is longer than 127 bytes either works to the dead letters or is
// refused when it first shows up.
func TestLongGroupNames(t *testing.T) { synctest.Test(t, longGroupNames) }

func longGroupNames(t *testing.T) {
	b := start(t, setup{fs: vfs.NewMem(), virtual: true})
	sent := b.mustSend("T", 0, "", "again")
	b.waitQueue("T", 0, 1)
	for _, n := range []int{120, 121, 127, 245, 255, 300} {
		name := strings.Repeat("g", n)
		sub, err := body.Encode(&body.SubscriptionGroupConfig{GroupName: name, ConsumeEnable: true,
			RetryQueueNums: 1, RetryMaxTimes: 1})
		require.NoError(t, err)
		created := b.call(codec.ReqUpdateAndCreateSubscriptionGroup, nil, sub)
		pulled := b.do(pullRequest(name, "T", 0, 0, 0))
		back := func(times int32) *codec.Command {
			return b.call(codec.ReqConsumerSendMsgBack, &codec.ConsumerSendMsgBackRequestHeader{
				Offset: offsetOf(t, sent), Group: name, DelayLevel: 1, OriginMsgID: "m", OriginTopic: "T",
				MaxReconsumeTimes: &times}, nil)
		}
		if created.Code != codec.RespSuccess {
			require.Greater(t, n, 120)
			require.NotEmpty(t, created.Remark)
			require.Equal(t, codec.RespSubscriptionGroupNotExist, pulled.Code,
				"a group that cannot be made is refused at once")
			require.Equal(t, codec.RespSubscriptionGroupNotExist, back(3).Code)
			require.Contains(t, []int{codec.RespSubscriptionGroupNotExist, codec.RespInvalidParameter},
				b.send(codec.RetryTopic(name), 0, "", []byte("b")).Code, "%d", n)
			continue
		}
		require.Equal(t, codec.RespSuccess, pulled.Code)
		require.Equal(t, codec.RespSuccess, back(3).Code)
		b.waitQueue(codec.RetryTopic(name), 0, 1)
		require.Equal(t, codec.RespSuccess, back(0).Code)
		b.waitQueue(codec.DLQTopic(name), 0, 1)
		b.beat("c1", consumer(t, name, 1, "T *"))
		answer := b.do(pullRequest(name, codec.RetryTopic(name), 0, 0, 0))
		require.Equal(t, []string{"again"}, bodies(t, answer))
		require.Equal(t, "again", string(b.all(codec.DLQTopic(name), 0)[0].Body))
	}
}

// tree lists all names below a directory, log files of the store apart.
func tree(t *testing.T, fsys vfs.FS, dir string) (out []string) {
	t.Helper()
	names, err := fsys.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		full := strings.TrimSuffix(dir, "/") + "/" + name
		out = append(out, full)
		if st, err := fsys.Stat(full); err == nil && st.IsDir() {
			out = append(out, tree(t, fsys, full)...)
		}
	}
	return out
}
