//go:build interop && linux

package failover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/admin"
)

const (
	handovers = 5
	// handoverLimit is how long no send may be answered while the role moves; after handoverCalm that is over.
	handoverLimit = 500 * time.Millisecond
	handoverCalm  = 2 * time.Second
)

// TestHandover moves the role of master from broker to broker by skylark admin handover while our clients, which look at the
// routes all the time, and Java's, which do every 30 s, send and read. No send fails, and none waits for long.
func TestHandover(t *testing.T) {
	skipIfMissing(t)
	for _, sh := range []shape{{controllers: 3, brokers: 2}, {controllers: 3, brokers: 3, quorum: true}} {
		t.Run(sh.String(), func(t *testing.T) { handOver(t, sh) })
	}
}

func handOver(t *testing.T, sh shape) {
	c := newCluster(t, ours, sh)
	r := newRecord()
	epoch := c.epoch()
	l := startLoad(c, r)
	t.Cleanup(l.stop)
	j := startJavaLoad(t, c, r)
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			_ = j.stop()
		}
	})
	c.eventually(readyTimeout, "producers send", func() bool {
		return len(r.since(ours, 0)) > 500 && len(r.since(java, 0)) > 500
	})
	for i := range handovers {
		n, m := len(r.since(ours, 0)), len(r.since(java, 0))
		var said strings.Builder
		r.fault()
		began := time.Now()
		require.NoError(t, admin.Run(c.ctx, &admin.Options{Broker: brokerName, Namesrv: []string{c.namesrv.addr()}, To: -1,
			Wait: 10 * time.Second, Client: c.client, Say: func(format string, args ...any) {
				fmt.Fprintf(&said, format+"; ", args...)
			}}))
		took := time.Since(began)
		require.True(t, wait(c.ctx, handoverCalm))
		until := time.Now()
		g, k := gap(r.since(ours, n), began, until), gap(r.since(java, m), began, until)
		t.Logf("hand-over %d: took %d ms, longest time without an answer %d ms, of Java's producers %d ms; %s", i+1,
			took.Milliseconds(), g.Milliseconds(), k.Milliseconds(), said.String())
		require.Less(t, g, handoverLimit)
		require.Less(t, k, handoverLimit)
		c.eventually(readyTimeout, "the group is whole", func() bool { return c.whole(sh.brokers) })
	}
	l.pause()
	require.NoError(t, j.pause())
	f, err := check(c, r, c.epoch()-epoch+1, goGroup, javaGroup)
	l.resume()
	require.NoError(t, err)
	require.Empty(t, f.wrong)
	require.Zero(t, f.lost)
	stopped = true
	require.NoError(t, j.stop())
	// Our producers give a send up, and send again, when the route names another master: those may be there twice.
	t.Logf("acknowledged %d, stored twice %d, unsure %d", f.acked, f.twice, r.unsure)
	require.Zero(t, r.unsure)
}
