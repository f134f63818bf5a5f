//go:build interop

package handover

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

// Topics of a relay. Every life makes one more of its own, and changes topicChanged.
const (
	topicOrders  = "HandoverOrders"
	topicLarge   = "HandoverLarge"
	topicBatch   = "HandoverBatch"
	topicZip     = "HandoverZip"
	topicDelayed = "HandoverDelayed"
	topicChanged = "HandoverChanged"
	topicLoad    = "HandoverLoad"
	topicTimer   = "HandoverTimer"
	topicHalf    = "HandoverHalf"
)

const (
	group         = "GID_handover"
	producerGroup = "PID_handover"
	loadQueues    = 4
	ordersQueues  = 4
)

// What one life writes. Per queue more than the 300 entries of a ConsumeQueue file come from the batches, more than
// the 400 keys of an IndexFile from all of them, more than the 1 MiB of a CommitLog file from the large ones.
const (
	ordersCount  = 120
	largeCount   = 45
	largeBytes   = 30000
	batchCount   = 8
	batchEntries = 50
)

// message is one that was acknowledged.
type message struct {
	queue   queueKey // where it belongs when it has been delivered
	offset  codec.QueueOffset
	id      string // offset message id
	uniq    string
	keys    []string
	tag     string
	body    []byte
	sysFlag int32
	life    int
	round   int
	// Of messages that are delivered later: when, and how often that was seen.
	due time.Time
	// timer tells that 4.9 does not deliver it.
	timer bool
}

// ledger is what the lives of a directory have been told is stored.
type ledger struct {
	mu       sync.Mutex
	sent     []*message
	delayed  []*message
	topics   map[string]*body.TopicConfig
	groups   map[string]*body.SubscriptionGroupConfig
	offsets  map[queueKey]codec.QueueOffset // of group
	forbid   map[string]string              // group → topic that it may not consume
	uniq     *codec.UniqueIDGenerator
	retries  int  // messages that were sent back for the retry topic
	dead     int  // and to the dead letters
	mayTwice bool // after a kill delayed messages may be delivered again
	lostKeys []phyRange
	rounds   int
	quiet    bool // send nothing that a broker delivers by itself
	random   *rand.Rand
}

func newLedger() *ledger {
	return &ledger{topics: map[string]*body.TopicConfig{}, groups: map[string]*body.SubscriptionGroupConfig{},
		offsets: map[queueKey]codec.QueueOffset{}, forbid: map[string]string{}, random: rand.New(rand.NewPCG(1, 2)),
		uniq: codec.NewUniqueIDGenerator(netip.MustParseAddr("127.0.0.1"), 4711, 1, time.Now)}
}

// writer writes the messages of one life.
type writer struct {
	t *testing.T
	l *life
	b *ledger
	n int
}

// round writes some of everything.
func (b *ledger) round(t *testing.T, l *life) {
	t.Helper()
	b.rounds++
	w := &writer{t: t, l: l, b: b}
	w.tables()
	for i := range ordersCount {
		w.send(&message{queue: queueKey{topicOrders, int32(i % ordersQueues)}, tag: []string{"TagA", "TagB", ""}[i%3],
			keys: []string{fmt.Sprintf("order-%d-%d", b.rounds, i), roundKey(b.rounds)},
			body: fmt.Appendf(nil, "order %d of life %d", i, l.number)})
	}
	for i := range batchCount {
		w.batch(queueKey{topicBatch, int32(i % 8 / 7)})
	}
	for i := range largeCount {
		w.send(&message{queue: queueKey{topicLarge, 0}, keys: []string{fmt.Sprintf("large-%d-%d", b.rounds, i)},
			body: w.noise(largeBytes)})
	}
	w.compressed()
	w.offsets()
	w.transactions()
	if !b.quiet {
		w.sendBack()
		w.later()
	}
}

// roundKey is a key that all orders of a round share.
func roundKey(number int) string { return fmt.Sprintf("round-%d", number) }

func topicSuffix(kind string) string { return strings.ReplaceAll(kind, ".", "") }

// tables makes the topics and groups, one of each new in this life, and changes one of each.
func (w *writer) tables() {
	w.topic(topicOrders, ordersQueues, nil)
	for _, name := range []string{topicLarge, topicZip, topicDelayed, topicTimer, topicHalf} {
		w.topic(name, 1, nil)
	}
	w.topic(topicBatch, 2, nil)
	w.topic(topicLoad, loadQueues, nil)
	w.topic("Handover"+topicSuffix(w.l.kind), 3, nil)
	w.topic(fmt.Sprintf("HandoverOf%d", w.l.number), int32(w.l.number), nil)
	w.topic(topicChanged, int32(w.l.number), func(c *body.TopicConfig) {
		c.Perm, c.WriteQueueNums, c.Order = 4+2*int32(w.l.number%2), int32(w.l.number)+3, w.l.number%2 == 0
	})
	w.group(group, nil)
	w.group(readerGroup, nil)
	own := fmt.Sprintf("GID_of%d", w.l.number)
	w.group(own, nil)
	if w.l.kind != java49 {
		w.l.forbidden(w.t, own, topicOrders, "false")
		w.b.forbid[own] = topicOrders
	}
	w.group("GID_changed", func(c *body.SubscriptionGroupConfig) {
		c.RetryMaxTimes, c.ConsumeBroadcastEnable = int32(w.l.number), w.l.number%2 == 0
	})
}

func (w *writer) topic(name string, queues int32, change func(*body.TopicConfig)) {
	w.t.Helper()
	if change == nil && w.b.topics[name] != nil {
		return
	}
	c := &body.TopicConfig{}
	c.SetDefaults()
	c.TopicName, c.ReadQueueNums, c.WriteQueueNums = name, queues, queues
	if change != nil {
		change(c)
	}
	require.NoError(w.t, w.l.client.CreateTopic(w.l.ctx, w.l.addr, c), "%s: topic %s", w.l, name)
	got, err := w.l.client.TopicConfig(w.l.ctx, w.l.addr, name)
	require.NoError(w.t, err, "%s: topic %s", w.l, name)
	w.b.topics[name] = got
}

func (w *writer) group(name string, change func(*body.SubscriptionGroupConfig)) {
	w.t.Helper()
	if change == nil && w.b.groups[name] != nil {
		return
	}
	c := body.NewSubscriptionGroupConfig(name)
	if change != nil {
		change(c)
	}
	require.NoError(w.t, w.l.client.CreateGroup(w.l.ctx, w.l.addr, c), "%s: group %s", w.l, name)
	w.b.groups[name] = w.l.groups(w.t)[name]
	require.NotNil(w.t, w.b.groups[name], "%s: group %s", w.l, name)
}

// properties are those of a message, with a unique key that is new.
func (w *writer) properties(m *message, more map[string]string) []byte {
	m.uniq, m.life, m.round = w.b.uniq.Next(), w.l.number, w.b.rounds
	p := codec.AppendProperty(nil, codec.PropUniqKey, m.uniq)
	p = codec.AppendProperty(p, codec.PropTags, m.tag)
	p = codec.AppendProperty(p, codec.PropKeys, strings.Join(m.keys, " "))
	p = codec.AppendProperty(p, codec.PropWaitStoreMsgOK, "true")
	for _, k := range slices.Sorted(maps.Keys(more)) {
		p = codec.AppendProperty(p, k, more[k])
	}
	return p
}

// put sends a message and gives the answer.
func (w *writer) put(m *message, more map[string]string) *client.SendResult {
	w.t.Helper()
	h := codec.SendMessageHeader{ProducerGroup: []byte(producerGroup), Topic: []byte(m.queue.topic), QueueID: m.queue.id,
		SysFlag: m.sysFlag, Flag: int32(w.n), Properties: codec.Field{Value: w.properties(m, more)}}
	w.n++
	r, err := w.l.client.Send(w.l.ctx, w.l.addr, &h, m.body)
	require.NoError(w.t, err, "%s: send to %s", w.l, m.queue)
	require.Equal(w.t, codec.RespSuccess, r.Code)
	m.id, m.offset = r.MsgIDs[0], r.QueueOffset
	return r
}

func (w *writer) send(m *message) *client.SendResult {
	w.t.Helper()
	r := w.put(m, map[string]string{"n": fmt.Sprint(w.n)})
	require.Equal(w.t, m.queue.id, r.QueueID)
	w.b.sent = append(w.b.sent, m)
	return r
}

func (w *writer) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(w.b.random.Uint32())
	}
	return b
}

func (w *writer) batch(q queueKey) {
	w.t.Helper()
	var text []byte
	var entries []*message
	for i := range batchEntries {
		m := &message{queue: q, tag: "B", keys: []string{fmt.Sprintf("batch-%d-%d-%d", w.b.rounds, w.n, i)},
			body: fmt.Appendf(nil, "entry %d of a batch of life %d", i, w.l.number)}
		var err error
		text, err = codec.AppendBatchEntry(text, codec.BatchEntry{Flag: int32(i), Body: m.body,
			Properties: w.properties(m, nil)})
		require.NoError(w.t, err)
		entries = append(entries, m)
	}
	w.n++
	h := codec.SendMessageHeader{ProducerGroup: []byte(producerGroup), Topic: []byte(q.topic), QueueID: q.id, Batch: true}
	r, err := w.l.client.Send(w.l.ctx, w.l.addr, &h, text)
	require.NoError(w.t, err, "%s: batch to %s", w.l, q)
	require.Len(w.t, r.MsgIDs, batchEntries)
	for i, m := range entries {
		m.offset, m.id = r.QueueOffset+codec.QueueOffset(i), r.MsgIDs[i]
	}
	w.b.sent = append(w.b.sent, entries...)
}

// compressed sends bodies of all three kinds of compression, as clients do.
func (w *writer) compressed() {
	w.t.Helper()
	text := []byte(strings.Repeat("compress me, please. ", 2000))
	for _, kind := range []int32{codec.SysFlagCompressionZlib, codec.SysFlagCompressionLZ4, codec.SysFlagCompressionZSTD} {
		b, flags, err := codec.CompressBody(text, kind, 5)
		require.NoError(w.t, err)
		w.send(&message{queue: queueKey{topicZip, 0}, body: b, sysFlag: flags})
	}
}

// offsets commits a progress of the group in every queue of the orders, some way behind the end.
func (w *writer) offsets() {
	w.t.Helper()
	for id := range int32(ordersQueues) {
		k := queueKey{topicOrders, id}
		end, err := w.l.client.MaxOffset(w.l.ctx, w.l.addr, k.topic, k.id)
		require.NoError(w.t, err)
		at := end - 3 - codec.QueueOffset(id)
		require.NoError(w.t, w.l.client.CommitOffset(w.l.ctx, w.l.addr, group, k.topic, k.id, at))
		w.b.offsets[k] = at
	}
}

// sendBack gives three of the life's orders to the retry topic and one to the dead letters.
func (w *writer) sendBack() {
	w.t.Helper()
	orders := slices.DeleteFunc(slices.Clone(w.b.sent), func(m *message) bool {
		return m.queue.topic != topicOrders || m.life != w.l.number
	})
	for i, level := range []int32{1, 1, 1, -1} {
		m := orders[i]
		_, p, err := codec.ParseOffsetMsgID(m.id)
		require.NoError(w.t, err)
		req := codec.NewRequest(codec.ReqConsumerSendMsgBack)
		codec.EncodeHeader(req, &codec.ConsumerSendMsgBackRequestHeader{Offset: p, Group: group, DelayLevel: level,
			OriginMsgID: m.uniq, OriginTopic: m.queue.topic})
		_, err = w.l.client.Do(w.l.ctx, w.l.addr, req)
		require.NoError(w.t, err, "%s: send back of %s", w.l, m.id)
		if level < 0 {
			w.b.dead++
		} else {
			w.b.retries++
		}
	}
}

// later sends messages that are delivered in this life (level 1), the next ones (2, 3) or never (18).
func (w *writer) later() {
	w.t.Helper()
	for i, level := range []int{1, 1, 1, 2, 2, 3, 3, 18, 18} {
		delays := map[int]time.Duration{1: time.Second, 2: 5 * time.Second, 3: 10 * time.Second, 18: 2 * time.Hour}
		m := &message{queue: queueKey{topicDelayed, 0}, tag: "Late", due: time.Now().Add(delays[level]),
			keys: []string{fmt.Sprintf("late-%d-%d", w.b.rounds, i)}, body: fmt.Appendf(nil, "late %d", i)}
		w.put(m, map[string]string{codec.PropDelayTimeLevel: fmt.Sprint(level)})
		w.b.delayed = append(w.b.delayed, m)
	}
	if w.l.kind == java49 {
		return
	}
	for i, seconds := range []int{1, 15, 40} { // the last two roll, see timerRollWindowSlot
		m := &message{queue: queueKey{topicTimer, 0}, due: time.Now().Add(time.Duration(seconds) * time.Second), timer: true,
			keys: []string{fmt.Sprintf("timer-%d-%d", w.b.rounds, i)}, body: fmt.Appendf(nil, "timer %d", i)}
		w.put(m, map[string]string{codec.PropTimerDelaySec: fmt.Sprint(seconds)})
		w.b.delayed = append(w.b.delayed, m)
	}
}

// transactions sends half messages: one is committed, one rolled back, one left open.
func (w *writer) transactions() {
	w.t.Helper()
	ends := []int32{codec.SysFlagTransactionCommit, codec.SysFlagTransactionRollback, codec.SysFlagTransactionNone}
	for _, end := range ends {
		m := &message{queue: queueKey{topicHalf, 0}, sysFlag: codec.SysFlagTransactionPrepared,
			body: fmt.Appendf(nil, "half %d", end)}
		r := w.put(m, map[string]string{codec.PropTransactionPrepared: "true", codec.PropProducerGroup: producerGroup})
		if end == codec.SysFlagTransactionNone {
			continue
		}
		_, p, err := codec.ParseOffsetMsgID(m.id)
		require.NoError(w.t, err)
		req := codec.NewRequest(codec.ReqEndTransaction)
		codec.EncodeHeader(req, &codec.EndTransactionRequestHeader{Topic: m.queue.topic, ProducerGroup: producerGroup,
			TranStateTableOffset: r.QueueOffset, CommitLogOffset: p, CommitOrRollback: end, MsgID: m.uniq,
			TransactionID: m.uniq})
		_, err = w.l.client.Do(w.l.ctx, w.l.addr, req)
		require.NoError(w.t, err, "%s: end of a transaction", w.l)
	}
}

// load sends from several connections until the broker dies, and kills it when minAcked are acknowledged.
func (b *ledger) load(t *testing.T, l *life, minAcked int) {
	t.Helper()
	acked := make(chan struct{}, minAcked)
	var wg sync.WaitGroup
	for id := range int32(loadQueues) {
		wg.Go(func() {
			c := client.New(client.Options{CallTimeout: callTimeout})
			defer c.Close()
			for i := 0; ; i++ {
				b.mu.Lock()
				m := &message{queue: queueKey{topicLoad, id}, uniq: b.uniq.Next(), life: l.number, tag: "L",
					keys: []string{fmt.Sprintf("load-%d-%d-%d", l.number, id, i)},
					body: []byte(strings.Repeat("load ", b.random.IntN(2000)))}
				b.mu.Unlock()
				p := codec.AppendProperty(nil, codec.PropUniqKey, m.uniq)
				p = codec.AppendProperty(p, codec.PropKeys, m.keys[0])
				p = codec.AppendProperty(p, codec.PropTags, m.tag)
				r, err := c.Send(l.ctx, l.addr, &codec.SendMessageHeader{ProducerGroup: []byte(producerGroup),
					Topic: []byte(topicLoad), QueueID: id, Properties: codec.Field{Value: p}}, m.body)
				if err != nil {
					return // killed
				}
				m.offset, m.id = r.QueueOffset, r.MsgIDs[0]
				b.mu.Lock()
				b.sent = append(b.sent, m)
				b.mu.Unlock()
				select {
				case acked <- struct{}{}:
				default:
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	for range minAcked {
		select {
		case <-acked:
		case <-ended:
			require.Fail(t, "the broker ended before it was killed", "%s", l)
		}
	}
	l.kill(t)
	<-ended
}
