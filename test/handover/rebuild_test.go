//go:build interop

package handover

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// rebuilds compares the files that a broker wrote while it ran with those that the other one makes of the same CommitLog
// when consumequeue/ and index/ are gone.
//
// They are equal byte for byte, after a clean stop (Java: recoverNormally) and after a crash (recoverAbnormally), with
// these exceptions:
//
//   - the names of index files, which are the times they were made at;
//   - checkpoint: confirmPhyOffset is where the log's last record was when the broker started, so it differs from the
//     life that wrote the log.
func (r *relay) rebuilds(writer, rebuilder string) {
	r.b.quiet = true
	l := r.begin(writer)
	r.write(l)
	r.write(l)
	r.finish(l, clean)
	r.rebuild("clean", rebuilder, false)
	if !testing.Short() {
		r.rebuild("crashed", rebuilder, true)
	}
}

// rebuild lets a broker build the files anew in a copy of the directory, and compares them.
func (r *relay) rebuild(name, kind string, crashed bool) {
	r.t.Helper()
	d := r.d.copyStore(r.t, name)
	require.NoError(r.t, os.RemoveAll(d.store("consumequeue")))
	require.NoError(r.t, os.RemoveAll(d.store("index")))
	if crashed {
		require.NoError(r.t, os.WriteFile(d.store("abort"), nil, 0o644))
	}
	l := d.start(r.t, kind)
	l.requireRecovery(r.t, !crashed)
	r.b.check(r.t, l, r.stored)
	l.stop(r.t)
	require.False(r.t, d.aborted(r.t))
	r.requireSameQueues(d, name)
	r.requireSameIndex(d, name)
	was, is := r.d.checkpoint(r.t), d.checkpoint(r.t)
	r.t.Logf("%s: checkpoint written %+v, rebuilt %+v", name, was, is)
	was.confirmPhyOffset, is.confirmPhyOffset = 0, 0
	require.Equal(r.t, was, is, "%s: checkpoint", name)
}

func (r *relay) requireSameQueues(d *directory, name string) {
	r.t.Helper()
	live, rebuilt := r.d.queueFiles(r.t), d.queueFiles(r.t)
	requireQueueFilesKept(r.t, live, rebuilt, name)
	requireQueueFilesKept(r.t, rebuilt, live, name)
	entries := 0
	for k, q := range live {
		entries += len(q.entries) / entryBytes
		if stored := r.stored[k]; stored != nil { // Java writes the ends of transactions some seconds later
			require.GreaterOrEqual(r.t, len(q.entries), int(stored.max)*entryBytes, "%s: %s", name, k)
		}
	}
	r.t.Logf("%s: %d entries of %d queues are equal", name, entries, len(live))
}

func (r *relay) requireSameIndex(d *directory, name string) {
	r.t.Helper()
	live, rebuilt := r.d.indexFiles(r.t), d.indexFiles(r.t)
	require.Equal(r.t, len(live), len(rebuilt), "%s: index files", name)
	keys := 0
	for i := range live {
		require.Equal(r.t, live[i].data, rebuilt[i].data, "%s: index file %s, rebuilt as %s", name, live[i].name,
			rebuilt[i].name)
		require.Equal(r.t, i < len(live)-1, live[i].full(), "%s: index file %s has %d entries", name, live[i].name,
			live[i].count)
		keys += int(live[i].count) - 1
	}
	r.t.Logf("%s: %d keys of %d index files are equal", name, keys, len(live))
}

// shrink hands over a directory from which things went: log files that expired, topics that were deleted.
func (r *relay) shrink() {
	r.b.quiet = true // what is delivered may expire before it is looked for
	l := r.begin(java53)
	r.write(l)
	r.write(l)
	r.shortLived(l, "HandoverDeletedByJava")
	r.shortLived(l, "HandoverDeletedBySkylark")
	r.forget(l, "HandoverDeletedByJava")
	r.finish(l, clean)
	r.expire()
	l = r.begin(skylark)
	r.requireReborn(l, "HandoverDeletedByJava")
	r.forget(l, "HandoverDeletedBySkylark")
	r.write(l)
	r.finish(l, clean)
	r.expire()
	r.expire()
	l = r.begin(java53)
	r.requireReborn(l, "HandoverDeletedBySkylark")
	r.finish(l, killed)
}

// shortLived makes a topic with some messages.
func (r *relay) shortLived(l *life, topic string) {
	r.t.Helper()
	w := writer{t: r.t, l: l, b: r.b}
	w.topic(topic, 1, nil)
	for range 10 {
		w.send(&message{queue: queueKey{topic, 0}, body: []byte(topic)})
	}
	require.True(r.t, poll(lateLimit, func() bool { return len(l.readQueue(r.t, queueKey{topic, 0}).raw) == 10 }))
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
