package storetest

import (
	"fmt"
	"path"
	"strings"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/store"
)

// LightMessage is a message that names light queues.
func LightMessage(topic string, queueID int32, body string, names ...string) *codec.Message {
	m := Message(topic, queueID, body, "tag", "")
	m.Properties = codec.AppendProperty(m.Properties, codec.PropInnerMultiDispatch, strings.Join(names, ","))
	return m
}

// lightOffsets are the light queues of a record and its offsets there.
func lightOffsets(rec *codec.Record) map[string]string {
	names, _ := rec.Property(codec.PropInnerMultiDispatch)
	offsets, ok := rec.Property(codec.PropInnerMultiQueueOffset)
	if !ok {
		return nil
	}
	out := map[string]string{}
	list := strings.Split(string(offsets), ",")
	for i, name := range strings.Split(string(names), ",") {
		if codec.IsLMQ(name) {
			out[name] = list[i]
		}
	}
	return out
}

// requireLight reads a light queue: its messages with their own offsets, whatever queue they lie in.
func requireLight(h *harness, name string, from int, want ...string) {
	h.Helper()
	require.EqualValues(h, from, h.MinOffset(name, 0), "%s", name)
	require.EqualValues(h, from+len(want), h.MaxOffset(name, 0), "%s", name)
	var got []string
	for q := store.QueueOffset(from); q < h.MaxOffset(name, 0); {
		res := pull(h, name, 0, q, 5, nil)
		require.Equal(h, store.GetFound, res.Status)
		for i, rec := range h.parsed(&res) {
			require.Equal(h, fmt.Sprint(int(q)+i), lightOffsets(&rec)[name])
			got = append(got, string(rec.Body))
		}
		q = res.NextOffset
	}
	require.Equal(h, want, got, "%s", name)
}

// testLight is about multi-dispatch.
func testLight(h *harness) {
	a, b, both := "%LMQ%a", "%LMQ%b", []string{}
	for i := range 25 {
		body := fmt.Sprint("m", i)
		m := LightMessage("T", int32(i%3), body, a, "no-light-queue", b)
		if i%2 == 0 {
			r := h.PutAll([]*codec.Message{Message("T", 0, "before", "", ""), m, Message("T", 0, "behind", "", "")})
			for _, r := range r {
				require.Equal(h, store.PutOK, r.Status)
			}
			require.Less(h, r[0].PhyOffset, r[1].PhyOffset)
			require.Less(h, r[1].PhyOffset, r[2].PhyOffset)
		} else {
			mustPut(h.T, h, m)
		}
		both = append(both, body)
	}
	mustPut(h.T, h, LightMessage("T", 0, "twice", a, a))
	mustPut(h.T, h, LightMessage("T", 0, "none", "other"))
	mustPut(h.T, h, LightMessage(a, 0, "own", a))
	settle(h.T, h)
	onlyA := append(append([]string(nil), both...), "twice", "own")
	check := func() {
		h.Helper()
		requireLight(h, a, 0, onlyA...)
		requireLight(h, b, 0, both...)
		require.False(h, h.HasQueue("no-light-queue", 0))
		require.EqualValues(h, 9+26+2, h.MaxOffset("T", 0))
	}
	check()
	for range 2 {
		h.restart()
		check()
	}
	h.stop()
	require.NoError(h, h.fs.RemoveAll(path.Join(h.o.RootDir, "consumequeue", a)))
	h.start()
	check()
	h.stop()
	h.abort()
	require.NoError(h, h.fs.RemoveAll(path.Join(h.o.RootDir, "consumequeue")))
	h.start()
	check()
	mustPut(h.T, h, LightMessage("T", 0, "on", a, b))
	settle(h.T, h)
	requireLight(h, a, 0, append(onlyA, "on")...)
	requireLight(h, b, 0, append(both, "on")...)
	require.NoError(h, h.DeleteTopic(b))
	require.False(h, h.HasQueue(b, 0))
	mustPut(h.T, h, LightMessage("T", 0, "anew", b))
	settle(h.T, h)
	requireLight(h, b, 0, "anew")
	h.restart()
	requireLight(h, b, 0, "anew")
}

// testLightRules: what makes light queues and what does not.
func testLightRules(h *harness) {
	f := func(status store.PutStatus, m *codec.Message) {
		h.Helper()
		r := h.Put(m)
		require.Equal(h, status, r.Status, "%v", r.Err)
	}
	for _, topic := range []string{codec.RetryTopic("g"), codec.DLQTopic("g"), codec.TimerTopic, codec.ScheduleTopic,
		codec.HalfTopic, codec.OpHalfTopic, batchTopic} {
		f(store.PutOK, LightMessage(topic, 0, "m", "%LMQ%x"))
	}
	m := LightMessage("T", 0, "half", "%LMQ%x")
	m.SysFlag |= codec.SysFlagTransactionPrepared
	f(store.PutOK, m)
	f(store.MessageIllegal, LightMessage("T", 0, "m", "%LMQ%a/b"))
	f(store.MessageIllegal, LightMessage("T", 0, strings.Repeat("m", h.o.MaxMessageSize-100), "%LMQ%x"))
	settle(h.T, h)
	require.False(h, h.HasQueue("%LMQ%x", 0))

	// An offset that a client made up counts for nothing.
	m = LightMessage("T", 0, "m", "%LMQ%y")
	m.Properties = codec.AppendProperty(m.Properties, codec.PropInnerMultiQueueOffset, "77")
	f(store.PutOK, m)
	entry := LightMessage("T", 0, "m", "%LMQ%z")
	entry.Properties = codec.AppendProperty(entry.Properties, codec.PropInnerMultiQueueOffset, "77")
	body, err := codec.AppendBatchEntry(nil, codec.BatchEntry{Body: entry.Body, Properties: entry.Properties})
	require.NoError(h, err)
	r := h.PutBatch(&codec.Message{Topic: "T", Body: body, WaitStoreMsgOK: true})
	require.Equal(h, store.PutOK, r.Status)
	settle(h.T, h)
	requireLight(h, "%LMQ%y", 0, "m")
	require.False(h, h.HasQueue("%LMQ%z", 0))

	limit := 3
	h.stop()
	h.o.MaxLmqConsumeQueueNum = func() int { return limit }
	h.start()
	f(store.PutOK, LightMessage("T", 0, "m", "%LMQ%1", "%LMQ%2"))
	f(store.LmqConsumeQueueNumExceeded, LightMessage("T", 0, "m", "%LMQ%1", "%LMQ%3"))
	f(store.LmqConsumeQueueNumExceeded, Message("%LMQ%4", 0, "m", "", ""))
	f(store.PutOK, LightMessage("T", 0, "m2", "%LMQ%1"))
	settle(h.T, h)
	requireLight(h, "%LMQ%1", 0, "m", "m2")
	require.NoError(h, h.DeleteTopic("%LMQ%y"))
	f(store.PutOK, LightMessage("T", 0, "m", "%LMQ%3"))
	settle(h.T, h)
	requireLight(h, "%LMQ%3", 0, "m")
}

// testLightOff: without the switches the property means nothing.
func testLightOff(h *harness) {
	f := func(lmq, multi, numbered bool) {
		h.Helper()
		h.stop()
		h.o.EnableLmq, h.o.EnableMultiDispatch = lmq, multi
		h.start()
		r := mustPut(h.T, h, LightMessage("T", 0, "m", "%LMQ%x"))
		settle(h.T, h)
		b, err := h.ReadRecord(r.PhyOffset, nil)
		require.NoError(h, err)
		rec, err := codec.ParseRecord(b, true)
		require.NoError(h, err)
		require.Equal(h, numbered, len(lightOffsets(&rec)) > 0)
		require.EqualValues(h, 0, h.MaxOffset("%LMQ%x", 0))
	}
	f(false, false, false)
	f(false, true, false)
	f(true, false, true)
}
