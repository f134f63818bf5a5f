//go:build interop

package handover

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// shrink hands over a directory from which things went: log files that expired, the files of a queue, and topics that
// were deleted, one of them as the last that happened before the stop.
func (r *relay) shrink() {
	const byJava, bySkylark, lost = "HandoverDeletedByJava", "HandoverDeletedBySkylark", "HandoverLost"
	r.b.quiet = true // what is delivered may expire before it is looked for
	l := r.begin(skylark)
	r.shortLived(l, lost)
	r.write(l)
	r.write(l)
	r.shortLived(l, byJava)
	r.shortLived(l, bySkylark)
	r.finish(l, clean)
	r.expire()
	require.NoError(r.t, os.RemoveAll(r.d.store("consumequeue", lost))) // all of it has expired: its numbering goes on
	l = r.begin(skylark)
	l.expected = "rebuilding queues from the log"
	r.finish(l, clean)
	l = r.begin(java53)
	r.shortLived(l, lost)
	r.forget(l, byJava)
	r.finish(l, clean)
	l = r.begin(skylark)
	r.requireReborn(l, byJava)
	r.write(l)
	r.forget(l, bySkylark)
	r.finish(l, clean)
	r.expire()
	r.expire()
	l = r.begin(java53)
	r.requireReborn(l, bySkylark)
	r.finish(l, killed)
}

// shortLived makes a topic with some messages.
func (r *relay) shortLived(l *life, topic string) {
	r.t.Helper()
	w := writer{t: r.t, l: l, b: r.b}
	w.topic(topic, 1, nil)
	k := queueKey{topic, 0}
	for range 10 {
		w.send(&message{queue: k, body: []byte(topic)})
	}
	require.True(r.t, poll(lateLimit, func() bool { return len(l.readQueue(r.t, k).raw) == 10 }), "%s: %s", l, topic)
	r.stored[k] = l.readQueue(r.t, k)
}

// forget deletes a topic.
func (r *relay) forget(l *life, topic string) {
	r.t.Helper()
	require.NoError(r.t, l.client.DeleteTopic(l.ctx, l.addr, topic))
	delete(r.b.topics, topic)
	k := queueKey{topic, 0}
	r.b.drop(func(m *message) bool { return m.queue == k })
	delete(r.stored, k)
	delete(r.queues, k)
}

// requireReborn makes a deleted topic again: it is empty and counts from 0.
func (r *relay) requireReborn(l *life, topic string) {
	r.t.Helper()
	k := queueKey{topic, 0}
	r.shortLived(l, topic)
	q := l.readQueue(r.t, k)
	require.EqualValues(r.t, 0, q.min, "%s: %s", l, topic)
	require.EqualValues(r.t, 10, q.max, "%s: %s", l, topic)
	r.stored[k] = q
}

// drop forgets messages.
func (b *ledger) drop(which func(m *message) bool) {
	var kept []*message
	for _, m := range b.sent {
		if !which(m) {
			kept = append(kept, m)
		}
	}
	b.sent = kept
}

// expire removes the first file of the log and the files of queues that only point into it, as retention does, and
// forgets what was in them.
func (r *relay) expire() {
	r.t.Helper()
	starts, _ := r.d.logFiles(r.t)
	require.Greater(r.t, len(starts), 2)
	name := readFiles(r.t, r.d.store("commitlog"))[0].name
	require.NoError(r.t, os.Remove(r.d.store("commitlog", name)))
	least := starts[1]
	r.b.drop(func(m *message) bool {
		_, p, err := codec.ParseOffsetMsgID(m.id)
		require.NoError(r.t, err)
		return p < least
	})
	expired := 0
	for _, q := range r.stored {
		for len(q.records) > 0 && q.records[0].PhyOffset < least {
			q.records, q.raw, q.min = q.records[1:], q.raw[1:], q.min+1
			expired++
		}
	}
	for k := range r.d.queueFiles(r.t) {
		dir := r.d.store("consumequeue", k.topic, strconv.Itoa(int(k.id)))
		files := readFiles(r.t, dir)
		for _, f := range files[:len(files)-1] { // never the last
			last := f.data[len(f.data)-entryBytes:]
			if codec.PhyOffset(binary.BigEndian.Uint64(last)) >= least {
				break
			}
			require.NoError(r.t, os.Remove(filepath.Join(dir, f.name)))
		}
	}
	r.queues = nil
	r.t.Logf("%d messages expired with %s", expired, name)
}
