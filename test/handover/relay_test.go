//go:build interop

package handover

import (
	"crypto/sha256"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec/body"
)

// ending is how a life ends.
type ending int

const (
	clean ending = iota
	// killed ends by kill -9 while nothing is going on.
	killed
	// killedBusy ends by kill -9 under load.
	killedBusy
)

// leg is one life of a relay.
type leg struct {
	kind string
	end  ending
}

// minAcked is how many messages of the load are acknowledged before the broker is killed.
const minAcked = 400

// relay hands one directory from broker to broker.
type relay struct {
	t      *testing.T
	d      *directory
	b      *ledger
	stored snapshot
	queues map[queueKey]queueFile
	// versions are those of the tables on the disk, which only grow.
	versions map[string]body.DataVersion
	foreign  map[string][sha256.Size]byte
}

func newRelay(t *testing.T, slot int) *relay {
	return &relay{t: t, d: newDirectory(t, slot), b: newLedger(), stored: snapshot{},
		versions: map[string]body.DataVersion{}}
}

// begin starts a broker and checks everything that was there before.
func (r *relay) begin(kind string) *life {
	r.t.Helper()
	afterKill, first := r.d.aborted(r.t), r.d.lives == 0
	if afterKill && kind != skylark {
		r.b.lostKeys = append(r.b.lostKeys, r.d.indexLoss(r.t))
	}
	r.foreign = r.d.foreignFiles(r.t)
	at := time.Now()
	l := r.d.start(r.t, kind)
	started := time.Since(at)
	if !first {
		l.requireRecovery(r.t, !afterKill)
	}
	r.d.requireInUse(r.t)
	at = time.Now()
	r.stored = r.b.check(r.t, l, r.stored)
	r.b.awaitDelayed(r.t, l, time.Now())
	r.t.Logf("%s: ready after %v, %d messages checked in %v", l, started.Round(time.Millisecond), r.stored.count(),
		time.Since(at).Round(time.Millisecond))
	l.afterKill = afterKill
	return l
}

// write adds a round of messages and checks that they are stored.
func (r *relay) write(l *life) {
	r.t.Helper()
	r.b.round(r.t, l)
	r.b.awaitDelayed(r.t, l, time.Now().Add(1500*time.Millisecond))
	now := l.snapshot(r.t, r.stored)
	now.requireKept(r.t, r.stored, l.String())
	r.b.checkSent(r.t, l, now)
	r.stored = now
}

// finish ends the life and looks at what it left.
func (r *relay) finish(l *life, end ending) {
	r.t.Helper()
	switch end {
	case clean:
		l.stop(r.t)
	case killed:
		l.kill(r.t)
	case killedBusy:
		r.b.load(r.t, l, minAcked)
	}
	require.Equal(r.t, end != clean, r.d.aborted(r.t), "%s: the file `abort`", l)
	l.requireQuiet(r.t, l.afterKill)
	if !l.java() {
		require.Equal(r.t, r.foreign, r.d.foreignFiles(r.t), "%s touched the files of others", l)
	}
	queues := r.d.queueFiles(r.t)
	requireQueueFilesKept(r.t, r.queues, queues, l.String())
	r.queues = queues
	r.checkConfig(l, end)
	if end != clean {
		r.b.mayTwice = true
	}
}

// run hands the directory through all legs. The last one only looks.
func (r *relay) run(legs ...leg) {
	r.t.Helper()
	for i, leg := range legs {
		l := r.begin(leg.kind)
		if i < len(legs)-1 {
			r.write(l)
		}
		r.finish(l, leg.end)
	}
}

// decodeConfig reads a file of config/.
func (r *relay) decodeConfig(name string, v any) (found bool) {
	r.t.Helper()
	b, err := os.ReadFile(r.d.store("config", name))
	if os.IsNotExist(err) {
		return false
	}
	require.NoError(r.t, err)
	require.NoError(r.t, body.Decode(b, v), name)
	return true
}

// checkConfig compares the tables on the disk with the ledger. Topics and groups are written at once, consumer offsets
// now and then: after a kill those on the disk count.
func (r *relay) checkConfig(l *life, end ending) {
	r.t.Helper()
	var topics body.TopicConfigSerializeWrapper
	require.True(r.t, r.decodeConfig("topics.json", &topics))
	for name, want := range r.b.topics {
		require.NotNil(r.t, topics.TopicConfigTable[name], "%s: topics.json has no %s", l, name)
		require.Equal(r.t, normalTopic(want), normalTopic(topics.TopicConfigTable[name]), "%s: topics.json: %s", l, name)
	}
	r.checkVersion(l, "topics.json", topics.DataVersion)
	var groups body.SubscriptionGroupWrapper
	require.True(r.t, r.decodeConfig("subscriptionGroup.json", &groups))
	for name, want := range r.b.groups {
		require.NotNil(r.t, groups.SubscriptionGroupTable[name], "%s: subscriptionGroup.json has no %s", l, name)
		require.Equal(r.t, normalGroup(want), normalGroup(groups.SubscriptionGroupTable[name]),
			"%s: subscriptionGroup.json: %s", l, name)
	}
	if l.kind == java49 { // it does not read the version of groups and counts from 0
		delete(r.versions, "subscriptionGroup.json")
	}
	r.checkVersion(l, "subscriptionGroup.json", groups.DataVersion)
	var offsets body.ConsumerOffsetSerializeWrapper
	r.decodeConfig("consumerOffset.json", &offsets)
	for k, want := range r.b.offsets {
		got, ok := offsets.OffsetTable[k.topic+"@"+group][k.id]
		switch {
		case end == clean:
			require.Equal(r.t, want, got, "%s: consumerOffset.json: %s", l, k)
		case ok:
			r.b.offsets[k] = got
		default:
			delete(r.b.offsets, k)
		}
	}
}

// checkVersion checks that the version of a table did not go back: name servers and slaves compare them.
func (r *relay) checkVersion(l *life, name string, v body.DataVersion) {
	r.t.Helper()
	require.GreaterOrEqual(r.t, v.Compare(r.versions[name]), 0, "%s: version of %s: %+v after %+v", l, name, v,
		r.versions[name])
	r.versions[name] = v
}
