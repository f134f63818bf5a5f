package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
	"skylark/store"
)

// CrashOptions describe one script of the crash harness.
type CrashOptions struct {
	Seed  uint64
	Ops   int
	Flush store.FlushDiskType
	// Change, if not nil, changes the options of the store (see Modes).
	Change func(o *store.Options)
}

// Crash runs a random script of Ops operations and cuts the power after each: a clone of the MemFS that holds what was
// synced and some of the rest is recovered and checked, then gets new messages, and in every third case is crashed and
// recovered again. The checks:
//
//   - with SYNC_FLUSH everything acknowledged is there, bytes and offsets;
//   - the log is a run of intact records from its start to its end;
//   - the ConsumeQueues hold what building them from the log gives, no more and no less, with offsets that have no gaps;
//     deleted topics stay deleted;
//   - every record is found by its keys;
//   - new messages continue the numbering.
func Crash(t *testing.T, o CrashOptions, open OpenFunc) {
	c := &crashTest{T: t, rng: rand.New(rand.NewPCG(o.Seed, 1)), open: open, o: TinyOptions("/store"), sync: o.Flush ==
		store.SyncFlush, queues: map[queueID]*queueModel{}, deletedAt: map[string]store.PhyOffset{}}
	c.o.FlushDiskType = o.Flush
	if o.Change != nil {
		o.Change(&c.o)
	}
	c.fs, c.recovered = vfs.NewMem(), math.MaxInt64
	c.s = c.start(c.fs)
	for c.op = range o.Ops {
		what := c.step()
		c.what = fmt.Sprintf("seed %d, operation %d: %s", o.Seed, c.op, what)
		if c.rng.IntN(2) == 0 {
			settle(t, c.s)
		}
		c.crash()
		if t.Failed() {
			break
		}
	}
	require.NoError(t, c.s.Close())
}

// queueID names a queue of the model.
type queueID struct {
	topic string
	id    int32
}

// queueModel is what was acknowledged of a queue since its topic was made.
type queueModel struct{ messages []messageModel }

type messageModel struct {
	phyOffset store.PhyOffset
	body      string
	base      int // the offset in the queue that the record says: of an inner batch that of its first message
}

type crashTest struct {
	*testing.T
	rng  *rand.Rand
	open OpenFunc
	o    store.Options
	sync bool
	fs   *vfs.MemFS
	s    Store
	op   int
	what string          // for messages
	seq  int             // of messages
	end  store.PhyOffset // of the last message put; readers may not see it yet

	queues    map[queueID]*queueModel
	deletedAt map[string]store.PhyOffset // where the log ended when a topic was deleted last
	recovered store.PhyOffset            // where the log ended after the crash, a large number without
	grown     bool                       // a clone has messages that the model has not
}

// The queues of the last topic are of the kind BatchCQ.
var (
	crashTopics = []string{"A", "B", "C", BatchTopicPrefix + "D"}
	crashLights = []string{"%LMQ%a", "%LMQ%b"}
)

func (c *crashTest) start(fs vfs.FS) Store {
	o := c.o
	o.FS = fs
	s, err := c.open(o)
	require.NoError(c, err, c.what)
	require.NoError(c, s.Start(), c.what)
	return s
}

// step does one random operation and names it.
func (c *crashTest) step() string {
	topic, id := crashTopics[c.rng.IntN(len(crashTopics))], int32(c.rng.IntN(3))
	switch n := c.rng.IntN(100); {
	case n < 48:
		c.put(topic, id, c.rng.IntN(300))
		return "put"
	case n < 60:
		c.putTurn(1 + c.rng.IntN(40))
		return "turn"
	case n < 63:
		c.putInner(id, 1+c.rng.IntN(6))
		return "inner batch"
	case n < 66:
		c.put(topic, id, 5000) // rolls soon
		return "large put"
	case n < 74:
		c.putBatch(topic, id, 1+c.rng.IntN(6))
		return "batch"
	case n < 80:
		m := c.message(topic, id, 50)
		m.SysFlag = []int32{codec.SysFlagTransactionPrepared, codec.SysFlagTransactionRollback}[c.rng.IntN(2)]
		c.end = mustPut(c.T, c.s, m).EndOffset
		return "half message"
	case n < 88:
		for range 30 {
			c.put(topic, id, c.rng.IntN(100))
		}
		return "many puts"
	case n < 91:
		if c.rng.IntN(4) == 0 {
			topic = crashLights[c.rng.IntN(len(crashLights))]
		}
		return c.deleteTopic(topic)
	case n < 96:
		c.restart()
		return "restart"
	default:
		return c.expire()
	}
}

func (c *crashTest) message(topic string, id int32, bodyBytes int) *codec.Message {
	c.seq++
	body := fmt.Sprintf("%d %s", c.seq, strings.Repeat("x", bodyBytes))
	m := Message(topic, id, body, "tag", fmt.Sprintf("k%d shared", c.seq))
	m.Properties = codec.AppendProperty(m.Properties, codec.PropUniqKey, fmt.Sprint("u", c.seq))
	if c.rng.IntN(4) == 0 {
		names := strings.Join(crashLights[:1+c.rng.IntN(len(crashLights))], ",")
		m.Properties = codec.AppendProperty(m.Properties, codec.PropInnerMultiDispatch, names)
	}
	return m
}

// stored notes a message in the model.
func (c *crashTest) stored(m *codec.Message, r *store.PutResult) {
	c.end = max(c.end, r.EndOffset)
	k := queueID{m.Topic, m.QueueID}
	c.stow(k, m, r.PhyOffset, int(r.QueueOffset), r.Count)
	names, light := m.Property(codec.PropInnerMultiDispatch)
	if !light || QueueType(m.Topic) == store.BatchCQ {
		return
	}
	for _, name := range strings.Split(string(names), ",") {
		c.stow(queueID{name, 0}, m, r.PhyOffset, len(c.queue(name, 0).messages), 1)
	}
}

func (c *crashTest) stow(k queueID, m *codec.Message, p store.PhyOffset, base, count int) {
	q := c.queue(k.topic, k.id)
	require.Equal(c, len(q.messages), base, "%s: %v", c.what, k)
	for range count {
		q.messages = append(q.messages, messageModel{p, string(m.Body), base})
	}
}

// putInner puts an inner batch.
func (c *crashTest) putInner(id int32, count int) {
	bodies := make([]string, count)
	for i := range bodies {
		bodies[i] = strings.Repeat("i", c.rng.IntN(100))
	}
	inner := InnerBatch(crashTopics[len(crashTopics)-1], id, "", bodies, nil)
	m := c.message(inner.Topic, id, 0)
	m.Body, m.SysFlag = inner.Body, inner.SysFlag
	m.Properties = codec.AppendProperty(m.Properties, codec.PropInnerNum, fmt.Sprint(count))
	r := mustPut(c.T, c.s, m)
	c.stored(m, &r)
}

func (c *crashTest) queue(topic string, id int32) *queueModel {
	k := queueID{topic, id}
	if c.queues[k] == nil {
		c.queues[k] = &queueModel{}
	}
	return c.queues[k]
}

func (c *crashTest) put(topic string, id int32, bodyBytes int) {
	m := c.message(topic, id, bodyBytes)
	r := mustPut(c.T, c.s, m)
	c.stored(m, &r)
}

// putTurn puts messages of several queues together, as the frames of one read are.
func (c *crashTest) putTurn(count int) {
	var messages []*codec.Message
	for range count {
		topic, id := crashTopics[c.rng.IntN(len(crashTopics))], int32(c.rng.IntN(3))
		messages = append(messages, c.message(topic, id, c.rng.IntN(400)))
	}
	for i, r := range c.s.PutAll(messages) {
		require.Equal(c, store.PutOK, r.Status, "%s: %v", c.what, r.Err)
		c.stored(messages[i], &r)
	}
}

func (c *crashTest) putBatch(topic string, id int32, count int) {
	var body []byte
	var bodies []string
	for range count {
		m := c.message(topic, id, c.rng.IntN(100))
		var err error
		body, err = codec.AppendBatchEntry(body, codec.BatchEntry{Body: m.Body, Properties: m.Properties})
		require.NoError(c, err)
		bodies = append(bodies, string(m.Body))
	}
	r := c.s.PutBatch(&codec.Message{Topic: topic, QueueID: id, Body: body, WaitStoreMsgOK: true})
	require.Equal(c, store.PutOK, r.Status, "%s: %v", c.what, r.Err)
	c.end = r.EndOffset
	q := c.queue(topic, id)
	require.EqualValues(c, len(q.messages), r.QueueOffset, c.what)
	for i := range bodies {
		q.messages = append(q.messages, messageModel{r.PhyOffsets[i], bodies[i], int(r.QueueOffset) + i})
	}
}

func (c *crashTest) deleteTopic(topic string) string {
	had := len(c.s.Queues(topic)) > 0
	require.NoError(c, c.s.DeleteTopic(topic), c.what)
	if had {
		c.deletedAt[topic] = c.end
	}
	for k := range c.queues {
		if k.topic == topic {
			delete(c.queues, k)
		}
	}
	return "delete topic " + topic
}

func (c *crashTest) restart() {
	require.NoError(c, c.s.Close(), c.what)
	c.s = c.start(c.fs)
	c.check(c.s, false)
}

// expire deletes the oldest log file. Real retention is a matter of hours: the queues are on the disk by then.
func (c *crashTest) expire() string {
	c.restart()
	first := c.s.MinPhyOffset()
	commit(c.T, c.s)
	if c.s.MaxPhyOffset() < first+2*LogFileBytes {
		return "nothing to expire"
	}
	name := fmt.Sprintf("/store/commitlog/%020d", first)
	require.NoError(c, c.fs.Chtimes(name, time.Now().Add(-1000*time.Hour)))
	c.s.DeleteExpiredFiles()
	require.Eventually(c, func() bool { return c.s.MinPhyOffset() > first }, waitLimit, waitTick)
	c.restart() // the least offsets follow in the background
	return "expire"
}

// crash cuts the power and looks at what comes up.
func (c *crashTest) crash() {
	fs := c.fs.CrashClone(c.rng.Uint64())
	s := c.start(fs)
	c.recovered = s.MaxPhyOffset()
	defer func() { c.recovered, c.grown = math.MaxInt64, false }()
	c.check(s, true)
	next := c.proceed(s)
	c.grown = true
	if c.rng.IntN(3) == 0 {
		again := fs.CrashClone(c.rng.Uint64())
		require.NoError(c, s.Close(), c.what)
		c.what += ", second crash"
		s = c.start(again)
		c.check(s, true)
		if c.sync {
			for k, q := range next {
				require.GreaterOrEqual(c, s.MaxOffset(k.topic, k.id), q+1, "%s: %v", c.what, k)
			}
		}
		c.proceed(s)
	}
	require.NoError(c, s.Close(), c.what)
}

// proceed puts a message into some queues and returns where they went.
func (c *crashTest) proceed(s Store) map[queueID]store.QueueOffset {
	next := map[queueID]store.QueueOffset{}
	for _, topic := range append(crashLights, crashTopics...) {
		k := queueID{topic, int32(c.rng.IntN(3))}
		if codec.IsLMQ(topic) {
			k.id = 0 // its numbering goes on by messages of its own, too
		}
		want := s.MaxOffset(k.topic, k.id)
		r := mustPut(c.T, s, Message(k.topic, k.id, "after the crash", "", ""))
		require.Equal(c, want, r.QueueOffset, "%s: %v continues its numbering", c.what, k)
		next[k] = want
	}
	settle(c.T, s)
	for k, q := range next {
		require.Equal(c, q+1, s.MaxOffset(k.topic, k.id), "%s: %v", c.what, k)
	}
	return next
}

// check compares a store with its own log and, as far as that was promised, with the model.
func (c *crashTest) check(s Store, crashed bool) {
	c.Helper()
	settle(c.T, s)
	expected := map[queueID][]store.QueueEntry{}
	first := map[queueID]store.QueueOffset{}
	var keyed []*codec.Message
	walkLog(c.T, s, func(rec *codec.Record) {
		if rec.TransactionState() != codec.SysFlagTransactionRollback {
			keyed = append(keyed, rec.Message())
		}
		if rec.TransactionState() != codec.SysFlagTransactionNone {
			return
		}
		for k, p := range placesOf(rec) {
			if rec.PhyOffset < min(c.deletedAt[k.topic], c.recovered) {
				continue
			}
			if len(expected[k]) == 0 {
				first[k] = p.at
			}
			require.EqualValues(c, int(first[k])+len(expected[k]), p.at, "%s: %v has a gap", c.what, k)
			for range p.count {
				expected[k] = append(expected[k], store.QueueEntry{PhyOffset: rec.PhyOffset, Size: int32(rec.TotalSize),
					TagsCode: tagsOf(rec)})
			}
		}
	})
	for _, name := range crashLights {
		k := queueID{name, 0}
		c.checkQueue(s, k, first[k], expected[k])
	}
	for _, topic := range crashTopics {
		for id := range int32(3) {
			k := queueID{topic, id}
			c.checkQueue(s, k, first[k], expected[k])
		}
	}
	if c.sync || !crashed {
		c.checkAcknowledged(s)
	}
	c.checkKeys(s, keyed)
}

// place is where a record stands in a queue.
type place struct {
	at    store.QueueOffset
	count int
}

// placesOf are the queues of a record.
func placesOf(rec *codec.Record) map[queueID]place {
	own := place{rec.QueueOffset, 1}
	if n, ok := rec.Property(codec.PropInnerNum); ok {
		own.count, _ = strconv.Atoi(string(n))
	}
	places := map[queueID]place{{string(rec.Topic), rec.QueueID}: own}
	for name, offset := range lightOffsets(rec) {
		at, _ := strconv.Atoi(offset)
		places[queueID{name, 0}] = place{store.QueueOffset(at), 1}
	}
	return places
}

func tagsOf(rec *codec.Record) int64 {
	tags, _ := rec.Property(codec.PropTags)
	return codec.TagsCode(tags)
}

func (c *crashTest) checkQueue(s Store, k queueID, first store.QueueOffset, want []store.QueueEntry) {
	c.Helper()
	from, to := s.MinOffset(k.topic, k.id), s.MaxOffset(k.topic, k.id)
	if len(want) == 0 {
		require.Equal(c, from, to, "%s: %v has nothing in the log", c.what, k)
		return
	}
	require.Equal(c, first, from, "%s: min of %v", c.what, k)
	require.Equal(c, first+store.QueueOffset(len(want)), to, "%s: max of %v", c.what, k)
	var got []store.QueueEntry
	for q := from; q < to; {
		part := s.QueueEntries(k.topic, k.id, q, len(want))
		require.NotEmpty(c, part, "%s: %v at %d", c.what, k, q)
		got = append(got, part...)
		q += store.QueueOffset(len(part))
	}
	require.Equal(c, want, got, "%s: %v", c.what, k)
	if c.o.EnableConsumeQueueExt && !codec.IsLMQ(k.topic) && QueueType(k.topic) == store.SimpleCQ { // as in Java
		checkUnits(c.T, s, k.topic, k.id, c.what)
	}
}

// checkAcknowledged looks for everything that was promised.
func (c *crashTest) checkAcknowledged(s Store) {
	c.Helper()
	for k, q := range c.queues {
		count, end := store.QueueOffset(len(q.messages)), s.MaxOffset(k.topic, k.id)
		require.True(c, end == count || c.grown && end == count+1, "%s: max of %v is %d, not %d", c.what, k, end, count)
		for i, m := range q.messages {
			if m.phyOffset < s.MinPhyOffset() {
				continue
			}
			b, err := s.ReadRecord(m.phyOffset, nil)
			require.NoError(c, err, "%s: %v %d", c.what, k, i)
			rec, err := codec.ParseRecord(b, true)
			require.NoError(c, err, c.what)
			require.EqualValues(c, m.base, placesOf(&rec)[k].at, "%s: %v %d", c.what, k, i)
			require.Equal(c, m.body, string(rec.Body), c.what)
		}
	}
}

// checkKeys looks every record up by its keys. The index follows the log in its order.
func (c *crashTest) checkKeys(s Store, keyed []*codec.Message) {
	c.Helper()
	shared := map[string]int{}
	for i := len(keyed) - 1; i >= 0; i-- {
		m := keyed[i]
		uniq, ok := m.Property(codec.PropUniqKey)
		if !ok {
			continue // put after a crash
		}
		find := func(key string) bool {
			recs, _, _ := s.QueryByKey(m.Topic, key, 64, 0, 1<<60)
			for _, b := range recs {
				if rec, err := codec.ParseRecord(b, true); err == nil && rec.PhyOffset == m.PhyOffset {
					return true
				}
			}
			return false
		}
		key := string(uniq)
		if len(shared) == 0 {
			require.Eventually(c, func() bool { return find(key) }, waitLimit, waitTick, "%s: %s of %s", c.what, key, m.Topic)
		}
		require.True(c, find(key), "%s: %s of %s at %d", c.what, key, m.Topic, m.PhyOffset)
		require.True(c, find("k"+key[1:]), "%s: %s of %s", c.what, key, m.Topic)
		shared[m.Topic]++
	}
	for topic, count := range shared {
		recs, _, _ := s.QueryByKey(topic, "shared", 64, 0, 1<<60)
		require.Len(c, recs, min(count, 64), "%s: shared key of %s", c.what, topic)
	}
}
