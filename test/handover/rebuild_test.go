//go:build interop

package handover

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// rebuilds compares the files that a broker wrote while it ran with those that the other one makes of the same CommitLog
// when consumequeue/ and index/ are gone.
//
// They are equal byte for byte, after a clean stop (Java: recoverNormally) and after a crash (recoverAbnormally), with
// these exceptions:
//
//   - the names of index files, which are the times they were made at;
//   - checkpoint: confirmPhyOffset is where the log's last record was when the broker started, so it differs from the
//     life that wrote the log, and 4.9 has none; indexMsgTimestamp is the end of the last full index file with Skylark,
//     with Java that of any of them, because a thread of its own flushes each and they race
//     (IndexService.getAndCreateLastIndexFile).
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
	for _, c := range []*checkpointFile{&was, &is} {
		require.Contains(r.t, r.d.fullIndexEnds(r.t), c.indexMsgTimestamp, "%s: checkpoint", name)
		c.indexMsgTimestamp = 0
	}
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
