//go:build interop

package handover

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

const (
	// lateLimit is how long after its due time, or the start of a broker, a message may come.
	lateLimit = 20 * time.Second
	pollEvery = 50 * time.Millisecond
	// queryStep is how many messages of a kind are passed over between two whose keys are queried.
	queryStep = 7
)

// poll asks until the answer is yes or the limit is over.
func poll(limit time.Duration, cond func() bool) bool {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for end := time.Now().Add(limit); ; <-tick.C {
		if cond() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// check compares what a broker serves with what it served before and with the ledger.
func (b *ledger) check(t *testing.T, l *life, before snapshot) snapshot {
	t.Helper()
	now := l.snapshot(t, before)
	now.requireKept(t, before, l.String())
	b.checkSent(t, l, now)
	b.checkKeys(t, l, now)
	b.checkTimes(t, l, now)
	b.checkTags(t, l, now)
	b.checkOffsets(t, l)
	b.checkTables(t, l)
	return now
}

// checkSent looks for every acknowledged message at its place.
func (b *ledger) checkSent(t *testing.T, l *life, s snapshot) {
	t.Helper()
	for _, m := range b.sent {
		rec, _ := s[m.queue].at(m.offset)
		require.NotNil(t, rec, "%s: %s at %d of life %d is gone", l, m.queue, m.offset, m.life)
		require.True(t, bytes.Equal(m.body, rec.Body), "%s: body of %s at %d", l, m.queue, m.offset)
		uniq, _ := rec.Property(codec.PropUniqKey)
		require.Equal(t, m.uniq, string(uniq), "%s: %s at %d", l, m.queue, m.offset)
		tag, _ := rec.Property(codec.PropTags)
		require.Equal(t, m.tag, string(tag), "%s: %s at %d", l, m.queue, m.offset)
		keys, _ := rec.Property(codec.PropKeys)
		require.Equal(t, strings.Join(m.keys, codec.KeySeparator), string(keys), "%s: %s at %d", l, m.queue, m.offset)
		require.Equal(t, m.sysFlag, rec.SysFlag, "%s: %s at %d", l, m.queue, m.offset)
		require.True(t, rec.BornHost.Addr().Is4() && rec.StoreHost.Addr().Is4())
		host, p, err := codec.ParseOffsetMsgID(m.id)
		require.NoError(t, err)
		require.Equal(t, p, rec.PhyOffset, "%s: %s at %d", l, m.queue, m.offset)
		require.Equal(t, host, rec.StoreHost, "%s: %s at %d", l, m.queue, m.offset)
	}
}

// query asks for records by key. Nothing found is no error.
func (l *life) query(t *testing.T, topic, key string, unique bool, begin, end int64) (raw [][]byte) {
	t.Helper()
	req := codec.NewRequest(codec.ReqQueryMessage)
	codec.EncodeHeader(req, &codec.QueryMessageRequestHeader{Topic: topic, Key: key, MaxNum: 64, BeginTimestamp: begin,
		EndTimestamp: end})
	if unique {
		req.SetBool(codec.ExtUniqueKeyQuery, true)
	}
	answer, err := l.client.Call(l.ctx, l.addr, req)
	require.NoError(t, err, "%s: query of %s in %s", l, key, topic)
	if answer.Code == codec.RespQueryNotFound {
		return nil
	}
	require.NoError(t, client.Check(req, answer), "%s: query of %s in %s", l, key, topic)
	for b := answer.Body; len(b) > 0; {
		size, _ := codec.RecordSize(b)
		raw = append(raw, b[:size])
		b = b[size:]
	}
	return raw
}

// checkKeys looks messages up by unique key, by each key and by id. Skylark's index follows the dispatch, so a first
// answer without the message is asked for again.
func (b *ledger) checkKeys(t *testing.T, l *life, s snapshot) {
	t.Helper()
	queried := 0
	for i, m := range b.sent {
		if i%queryStep != 0 && m.life != l.number-1 {
			continue
		}
		rec, raw := s[m.queue].at(m.offset)
		if i%queryStep == 0 {
			require.Equal(t, raw, l.view(t, rec.PhyOffset), "%s: view of %s", l, m.id)
		}
		if b.indexLost(rec.PhyOffset) {
			continue
		}
		queried++
		keys := []string{m.uniq}
		if len(m.keys) > 0 {
			keys = append(keys, m.keys[0])
		}
		for n, key := range keys {
			var found [][]byte
			require.True(t, poll(lateLimit, func() bool {
				found = l.query(t, m.queue.topic, key, n == 0, 0, math.MaxInt64)
				return len(found) > 0
			}), "%s: %s at %d (phyOffset %d) of life %d is not found by %q", l, m.queue, m.offset, rec.PhyOffset, m.life, key)
			if l.java() { // recovery indexes the last record of the last index file twice (IndexService.buildIndex)
				found = slices.CompactFunc(found, bytes.Equal)
			}
			require.Equal(t, 1, len(found), "%s: %s at %d by %q", l, m.queue, m.offset, key)
			require.True(t, bytes.Equal(raw, found[0]), "%s: %s at %d by %q", l, m.queue, m.offset, key)
		}
	}
	t.Logf("%s: %d messages found by their keys", l, queried)
}

func (l *life) view(t *testing.T, p codec.PhyOffset) []byte {
	t.Helper()
	req := codec.NewRequest(codec.ReqViewMessageByID)
	codec.EncodeHeader(req, &codec.ViewMessageRequestHeader{Offset: p})
	answer, err := l.client.Do(l.ctx, l.addr, req)
	require.NoError(t, err, "%s: view of %d", l, p)
	return answer.Body
}

// checkTimes searches by store time: offsets of queues, and the key that all orders of a round share.
func (b *ledger) checkTimes(t *testing.T, l *life, s snapshot) {
	t.Helper()
	for k, q := range s {
		if q == nil || len(q.records) == 0 || l.kind == java49 { // 4.9 has no boundary and another answer between two messages
			continue
		}
		first, mid, last := q.records[0].StoreTimestamp, q.records[len(q.records)/2].StoreTimestamp,
			q.records[len(q.records)-1].StoreTimestamp
		for _, at := range []int64{first - 1, first, first + 1, mid - 1, mid, mid + 1, last - 1, last, last + 1} {
			require.Equal(t, q.offsetAtOrAfter(at), l.searchOffset(t, k, at, codec.BoundaryLower),
				"%s: first of %s at or after %d", l, k, at)
			require.Equal(t, q.offsetAtOrBefore(at), l.searchOffset(t, k, at, codec.BoundaryUpper),
				"%s: last of %s at or before %d", l, k, at)
		}
	}
	for round := 1; round <= b.rounds; round++ {
		begin, end := int64(math.MaxInt64), int64(0)
		lost := false
		for _, m := range b.sent {
			if m.queue.topic == topicOrders && m.round == round {
				rec, _ := s[m.queue].at(m.offset)
				begin, end = min(begin, rec.StoreTimestamp), max(end, rec.StoreTimestamp)
				lost = lost || b.indexLost(rec.PhyOffset)
			}
		}
		if lost || end == 0 {
			continue
		}
		key := roundKey(round)
		count := func(begin, end int64) int { return len(l.query(t, topicOrders, key, false, begin, end)) }
		require.Equal(t, 64, count(begin-1000, end+1000), "%s: %s in its time", l, key)
		require.Equal(t, 0, count(0, begin-2000), "%s: %s before its time", l, key)
		require.Equal(t, 0, count(end+2000, math.MaxInt64), "%s: %s after its time", l, key)
	}
}

func (l *life) searchOffset(t *testing.T, k queueKey, at int64, boundary string) codec.QueueOffset {
	t.Helper()
	req := codec.NewRequest(codec.ReqSearchOffsetByTimestamp)
	codec.EncodeHeader(req, &codec.SearchOffsetRequestHeader{Topic: k.topic, QueueID: k.id, Timestamp: at,
		BoundaryType: boundary})
	answer, err := l.client.Do(l.ctx, l.addr, req)
	require.NoError(t, err, "%s: search in %s", l, k)
	var h codec.OffsetResponseHeader
	require.NoError(t, codec.DecodeHeader(answer, &h))
	return h.Offset
}

// offsetAtOrAfter is LOWER: the first record stored at or after a time, the end if there is none.
func (q *storedQueue) offsetAtOrAfter(at int64) codec.QueueOffset {
	i := slices.IndexFunc(q.records, func(r codec.Record) bool { return r.StoreTimestamp >= at })
	if i < 0 {
		return q.max
	}
	return q.min + codec.QueueOffset(i)
}

// offsetAtOrBefore is UPPER: the last record stored at or before a time, the first if there is none.
func (q *storedQueue) offsetAtOrBefore(at int64) codec.QueueOffset {
	for i := len(q.records) - 1; i > 0; i-- {
		if q.records[i].StoreTimestamp <= at {
			return q.min + codec.QueueOffset(i)
		}
	}
	return q.min
}

// checkTags pulls by tag, which the broker decides by the ConsumeQueue alone.
func (b *ledger) checkTags(t *testing.T, l *life, s snapshot) {
	t.Helper()
	k := queueKey{topicOrders, 0}
	q := s[k]
	if q == nil {
		return
	}
	want, got := 0, 0
	for i := range q.records {
		if tag, _ := q.records[i].Property(codec.PropTags); string(tag) == "TagA" {
			want++
		}
	}
	for at := q.min; at < q.max; {
		r, err := l.client.Pull(l.ctx, l.addr, client.PullRequest{Group: readerGroup, Topic: k.topic, QueueID: k.id,
			QueueOffset: at, Expression: "TagA"})
		require.NoError(t, err)
		require.Greater(t, r.NextBeginOffset, at)
		require.NoError(t, client.EachRecord(r.Body, func(*codec.Record) error { got++; return nil }))
		at = r.NextBeginOffset
	}
	require.Equal(t, want, got, "%s: messages of %s with the tag", l, k)
}

func (b *ledger) checkOffsets(t *testing.T, l *life) {
	t.Helper()
	for k, want := range b.offsets {
		got, err := l.client.ConsumerOffset(l.ctx, l.addr, group, k.topic, k.id)
		require.NoError(t, err, "%s: offset of %s in %s", l, group, k)
		require.Equal(t, want, got, "%s: offset of %s in %s", l, group, k)
	}
}

func (l *life) groups(t *testing.T) map[string]*body.SubscriptionGroupConfig {
	t.Helper()
	answer, err := l.client.Do(l.ctx, l.addr, codec.NewRequest(codec.ReqGetAllSubscriptionGroupConfig))
	require.NoError(t, err)
	var all body.SubscriptionGroupWrapper
	require.NoError(t, body.Decode(answer.Body, &all))
	return all.SubscriptionGroupTable
}

// forbidden asks whether a group may not consume a topic, and changes that first if readable is not empty.
func (l *life) forbidden(t *testing.T, group, topic, readable string) bool {
	t.Helper()
	req := codec.NewRequest(codec.ReqUpdateAndGetGroupForbidden)
	req.Set("group", group)
	req.Set("topic", topic)
	if readable != "" {
		req.Set("readable", readable)
	}
	answer, err := l.client.Do(l.ctx, l.addr, req)
	require.NoError(t, err, "%s: %s in %s", l, group, topic)
	var f body.GroupForbidden
	require.NoError(t, body.Decode(answer.Body, &f))
	return f.Readable != nil && !*f.Readable
}

func (b *ledger) checkTables(t *testing.T, l *life) {
	t.Helper()
	for name, want := range b.topics {
		got, err := l.client.TopicConfig(l.ctx, l.addr, name)
		require.NoError(t, err, "%s: topic %s", l, name)
		require.Equal(t, normalTopic(want), normalTopic(got), "%s: topic %s", l, name)
	}
	groups := l.groups(t)
	for name, want := range b.groups {
		require.NotNil(t, groups[name], "%s: group %s", l, name)
		require.Equal(t, normalGroup(want), normalGroup(groups[name]), "%s: group %s", l, name)
	}
	if l.kind == java49 { // it knows nothing of this, and its next write of the file leaves it out
		clear(b.forbid)
	}
	for name, topic := range b.forbid {
		require.True(t, l.forbidden(t, name, topic, ""), "%s: %s may consume %s", l, name, topic)
		require.False(t, l.forbidden(t, name, topicLarge, ""), "%s: %s may not consume %s", l, name, topicLarge)
	}
}

// normalTopic makes a missing map an empty one: 4.9 has no attributes.
func normalTopic(c *body.TopicConfig) body.TopicConfig {
	n := *c
	if len(n.Attributes) == 0 {
		n.Attributes = nil
	}
	return n
}

func normalGroup(c *body.SubscriptionGroupConfig) body.SubscriptionGroupConfig {
	n := *c
	if len(n.Attributes) == 0 {
		n.Attributes = nil
	}
	return n
}

// awaitDelayed waits until what is due has been delivered, and checks that it came once, or at least once after a kill.
// Messages that were sent back are among it.
func (b *ledger) awaitDelayed(t *testing.T, l *life, by time.Time) {
	t.Helper()
	for _, m := range b.delayed {
		if m.due.After(by) {
			if len(l.readQueue(t, m.queue).find(m.uniq)) > 0 {
				require.True(t, time.Now().After(m.due), "%s: %q of life %d, due at %s, came too early", l, m.keys, m.life,
					m.due.Format(time.TimeOnly))
			}
			continue
		}
		if m.timer && l.kind == java49 {
			continue
		}
		var found []*codec.Record
		require.True(t, poll(max(0, time.Until(m.due))+lateLimit, func() bool {
			found = l.readQueue(t, m.queue).find(m.uniq)
			return len(found) > 0
		}), "%s: %q of life %d, due at %s, was not delivered", l, m.keys, m.life, m.due.Format(time.TimeOnly))
		if !b.mayTwice {
			require.Len(t, found, 1, "%s: %q of life %d", l, m.keys, m.life)
		}
		for _, rec := range found {
			require.Equal(t, m.body, rec.Body)
			require.GreaterOrEqual(t, rec.StoreTimestamp, m.due.UnixMilli()-1100, "%s: %q of life %d came too early", l, m.keys,
				m.life) // a timer's time is cut to whole seconds
		}
	}
	for k, want := range map[queueKey]int{{codec.RetryTopic(group), 0}: b.retries, {codec.DLQTopic(group), 0}: b.dead} {
		got := 0
		require.True(t, poll(lateLimit, func() bool {
			got = len(l.readQueue(t, k).raw)
			return got >= want
		}), "%s: %d messages in %s, not %d", l, got, k, want)
		if !b.mayTwice {
			require.Equal(t, want, got, "%s: messages in %s", l, k)
		}
	}
}
