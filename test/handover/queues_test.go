//go:build interop

package handover

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

const (
	topicInner   = "HandoverBatchCQ" // queue.type=BatchCQ
	topicParent  = "HandoverParent"  // its messages name light queues
	lightEven    = "%LMQ%even"
	lightAll     = "%LMQ%all"
	groupLight   = "%LMQ%readers"
	batchRounds  = 12 // of a life: inner batches of 1 to 4 messages, a single one, a batch without an id
	lightOfALife = 25
	batchFile    = 20 * 46 // bytes of a queue file
)

// batchQueues is what a relay put into the two kinds of queues.
type batchQueues struct {
	*relay
	inner       []string // bodies of topicInner in order
	even, all   []string // of the light queues
	batchFiles  []byte
	evenCommits codec.QueueOffset // of groupLight in lightEven
}

// batchAndLight hands queues of the kind BatchCQ and light queues from broker to broker. In the end each broker builds the
// files anew from the log, which have to be those that the lives wrote one after the other.
func (r *relay) batchAndLight() {
	r.d.props["enableLmq"], r.d.props["enableMultiDispatch"] = "true", "true"
	r.d.props["mapperFileSizeBatchConsumeQueue"] = fmt.Sprint(batchFile)
	q := &batchQueues{relay: r}
	legs := []leg{{java53, clean}, {skylark, clean}, {java53, killed}, {skylark, killed}, {java53, clean}, {skylark, clean}}
	for _, leg := range legs {
		l := r.d.start(r.t, leg.kind)
		if l.number == 1 {
			q.topics(l)
		}
		q.check(l)
		q.write(l)
		q.check(l)
		if leg.end == clean {
			l.stop(r.t)
		} else {
			q.awaitCommits(l)
			l.kill(r.t)
		}
		l.requireQuiet(r.t, true)
		q.requireFiles(l)
		r.t.Logf("%s: %d messages of batches, %d of light queues", l, len(q.inner), len(q.even)+len(q.all))
	}
	for _, kind := range []string{java53, skylark} {
		q.rebuilt(kind)
	}
}

func (q *batchQueues) topics(l *life) {
	for name, attributes := range map[string]map[string]string{topicInner: {"queue.type": "BatchCQ"}, topicParent: nil} {
		c := &body.TopicConfig{}
		c.SetDefaults()
		c.TopicName, c.ReadQueueNums, c.WriteQueueNums, c.Attributes = name, 1, 1, attributes
		require.NoError(q.t, l.client.CreateTopic(l.ctx, l.addr, c))
	}
}

// write adds a round of everything.
func (q *batchQueues) write(l *life) {
	q.t.Helper()
	for i := range batchRounds {
		q.batch(l, 1+i%4, true)
		q.batch(l, 1, false) // a batch of an older client
		name := fmt.Sprintf("single of %s", l)
		q.send(l, topicInner, name, nil)
		q.inner = append(q.inner, name)
	}
	for i := range lightOfALife {
		name, names := fmt.Sprintf("light %d of %s", i, l), lightAll
		q.all = append(q.all, name)
		if i%2 == 0 {
			names += "," + lightEven
			q.even = append(q.even, name)
		}
		q.send(l, topicParent, name, codec.AppendProperty(nil, codec.PropInnerMultiDispatch, names))
	}
	q.evenCommits += 3
	req := codec.NewRequest(codec.ReqUpdateConsumerOffset)
	codec.EncodeHeader(req, &codec.UpdateConsumerOffsetRequestHeader{ConsumerGroup: groupLight, Topic: lightEven,
		CommitOffset: q.evenCommits})
	_, err := l.client.Do(l.ctx, l.addr, req)
	require.NoError(q.t, err)
}

func (q *batchQueues) send(l *life, topic, text string, props []byte) {
	q.t.Helper()
	h := codec.SendMessageHeader{ProducerGroup: []byte(producerGroup), Topic: []byte(topic),
		Properties: codec.Field{Value: codec.AppendProperty(props, codec.PropUniqKey, q.b.uniq.Next())}}
	_, err := l.client.Send(l.ctx, l.addr, &h, []byte(text))
	require.NoError(q.t, err, "%s: %s", l, topic)
}

// batch sends a batch to topicInner, as an inner one if it has an id.
func (q *batchQueues) batch(l *life, count int, inner bool) {
	q.t.Helper()
	var text []byte
	at := codec.QueueOffset(len(q.inner))
	for i := range count {
		name := fmt.Sprintf("%d of a batch of %s", i, l)
		var err error
		text, err = codec.AppendBatchEntry(text, codec.BatchEntry{Body: []byte(name),
			Properties: codec.AppendProperty(nil, codec.PropTags, "T")})
		require.NoError(q.t, err)
		q.inner = append(q.inner, name)
	}
	h := codec.SendMessageHeader{ProducerGroup: []byte(producerGroup), Topic: []byte(topicInner), Batch: true}
	if inner {
		h.Properties.Value = codec.AppendProperty(nil, codec.PropUniqKey, q.b.uniq.Next())
	}
	r, err := l.client.Send(l.ctx, l.addr, &h, text)
	require.NoError(q.t, err, "%s: batch", l)
	require.Equal(q.t, at, r.QueueOffset, "%s: where the batch went", l)
}

// awaitCommits waits until the offset of groupLight is on the disk.
func (q *batchQueues) awaitCommits(l *life) {
	q.t.Helper()
	want := fmt.Sprintf("\"%s@%s\":%d", lightEven, groupLight, q.evenCommits)
	require.True(q.t, poll(lateLimit, func() bool {
		text, err := os.ReadFile(q.d.store("config", "lmqConsumerOffset.json"))
		return err == nil && strings.Contains(strings.Join(strings.Fields(string(text)), ""), want)
	}), "%s: %s is not in lmqConsumerOffset.json", l, want)
}

// check reads all queues.
func (q *batchQueues) check(l *life) {
	q.t.Helper()
	require.Equal(q.t, q.inner, q.read(l, topicInner, len(q.inner)), "%s: %s", l, topicInner)
	require.Equal(q.t, q.even, q.read(l, lightEven, len(q.even)), "%s: %s", l, lightEven)
	require.Equal(q.t, q.all, q.read(l, lightAll, len(q.all)), "%s: %s", l, lightAll)
	if q.evenCommits == 0 {
		return
	}
	req := codec.NewRequest(codec.ReqQueryConsumerOffset)
	codec.EncodeHeader(req, &codec.QueryConsumerOffsetRequestHeader{ConsumerGroup: groupLight, Topic: lightEven})
	answer, err := l.client.Do(l.ctx, l.addr, req)
	require.NoError(q.t, err)
	require.Equal(q.t, fmt.Sprint(q.evenCommits), answer.Get("offset"), "%s: offset of %s", l, groupLight)
}

// read consumes a queue as a 5.x client does, who takes inner batches apart.
func (q *batchQueues) read(l *life, topic string, want int) (got []string) {
	q.t.Helper()
	var end codec.QueueOffset
	require.True(q.t, poll(lateLimit, func() bool {
		var err error
		end, err = l.client.MaxOffset(l.ctx, l.addr, topic, 0)
		require.NoError(q.t, err)
		return end >= codec.QueueOffset(want)
	}), "%s: %s ends at %d, not %d", l, topic, end, want)
	for at := codec.QueueOffset(0); at < end; {
		r, err := l.client.Pull(l.ctx, l.addr, client.PullRequest{Group: readerGroup, Topic: topic, QueueOffset: at})
		require.NoError(q.t, err)
		require.Equal(q.t, codec.RespSuccess, r.Code, "%s: pull %s at %d", l, topic, at)
		require.NoError(q.t, client.EachRecord(r.Body, func(rec *codec.Record) error {
			require.EqualValues(q.t, len(got), rec.OffsetIn(topic), "%s: %s", l, topic)
			if !rec.IsInnerBatch() {
				got = append(got, string(rec.Body))
				return nil
			}
			require.NotZero(q.t, rec.SysFlag&codec.SysFlagNeedUnwrap)
			return codec.EachBatchEntry(rec.Body, func(_ int, e codec.BatchEntry) error {
				got = append(got, string(e.Body))
				return nil
			})
		}))
		require.EqualValues(q.t, len(got), r.NextBeginOffset, "%s: %s at %d", l, topic, at)
		at = r.NextBeginOffset
	}
	return got
}

// entriesOf are the entries of a queue on the disk.
func entriesOf(t *testing.T, d *directory, kind, topic string, fileBytes, entry int) (entries []byte) {
	t.Helper()
	for _, f := range readFiles(t, d.store(kind, topic, "0")) {
		require.Len(t, f.name, 20)
		require.Len(t, f.data, fileBytes, "%s: %s", topic, f.name)
		entries = append(entries, f.data...)
	}
	entries = bytes.TrimRight(entries, "\x00")
	for len(entries)%entry != 0 { // an entry may end with zeros
		entries = append(entries, 0)
	}
	return entries
}

// requireFiles checks that a life only added entries.
func (q *batchQueues) requireFiles(l *life) {
	q.t.Helper()
	files := entriesOf(q.t, q.d, "batchconsumequeue", topicInner, batchFile, 46)
	require.True(q.t, bytes.HasPrefix(files, q.batchFiles), "%s changed entries of %s", l, topicInner)
	q.batchFiles = files
	for _, name := range []string{topicInner, topicParent} {
		text, err := os.ReadFile(q.d.store("config", "topics.json"))
		require.NoError(q.t, err)
		require.Contains(q.t, string(text), name)
		require.NotContains(q.t, string(text), "%LMQ%e")
	}
	_, err := os.Stat(q.d.store("consumequeue", topicInner))
	require.True(q.t, os.IsNotExist(err), "%s made ConsumeQueues for %s", l, topicInner)
}

// rebuilt lets a broker build all queues from the log and compares the files.
func (q *batchQueues) rebuilt(kind string) {
	q.t.Helper()
	d := q.d.copyStore(q.t, "rebuilt-"+strings.ReplaceAll(kind, ".", ""))
	for _, dir := range []string{"batchconsumequeue", "consumequeue", "index"} {
		require.NoError(q.t, os.RemoveAll(d.store(dir)))
	}
	require.NoError(q.t, os.Remove(d.store("checkpoint"))) // from the start of the log on
	require.NoError(q.t, os.WriteFile(d.store("abort"), nil, 0o644))
	l := d.start(q.t, kind)
	q.check(l)
	l.stop(q.t)
	files := entriesOf(q.t, d, "batchconsumequeue", topicInner, batchFile, 46)
	require.Equal(q.t, q.batchFiles, files, "%s: %s rebuilt", l, topicInner)
	for _, name := range []string{lightEven, lightAll, topicParent} {
		require.Equal(q.t, entriesOf(q.t, q.d, "consumequeue", name, 6000, entryBytes),
			entriesOf(q.t, d, "consumequeue", name, 6000, entryBytes), "%s: %s rebuilt", l, name)
	}
}
