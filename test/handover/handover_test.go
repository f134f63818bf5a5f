//go:build interop

package handover

import "testing"

// TestHandover runs every scenario. They share nothing but the name server, and a Java broker sleeps for most of the 15 s
// that its clean stop takes, so several run at a time (see TestMain).
func TestHandover(t *testing.T) {
	startNamesrv(t)
	slot := 0
	run := func(name string, short bool, scenario func(r *relay)) {
		n := slot
		slot++
		if testing.Short() != short {
			return
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(newRelay(t, n))
		})
	}
	legs := func(legs ...leg) func(r *relay) { return func(r *relay) { r.run(legs...) } }
	run("ping-pong", false, legs(leg{java53, clean}, leg{skylark, killedBusy}, leg{java53, killed}, leg{skylark, clean},
		leg{java53, killedBusy}, leg{skylark, killed}, leg{java53, clean}))
	run("java-4.9", false, legs(leg{java49, clean}, leg{skylark, clean}, leg{java49, killedBusy}, leg{skylark, killedBusy},
		leg{java49, clean}, leg{skylark, clean}, leg{java53, killed}))
	run("clean", false, func(r *relay) {
		r.d.props["enableConsumeQueueExt"] = "true" // Java's entries have addresses in the place of tags
		r.run(leg{java53, clean}, leg{skylark, clean}, leg{java53, clean}, leg{skylark, clean})
	})
	run("kill", false, func(r *relay) {
		r.d.props["flushDiskType"] = "SYNC_FLUSH"
		r.run(leg{java53, killedBusy}, leg{skylark, killedBusy}, leg{java53, killedBusy}, leg{skylark, killed},
			leg{java53, killed})
	})
	run("both-ends", true, legs(leg{java53, clean}, leg{skylark, clean}, leg{java53, killedBusy},
		leg{skylark, killedBusy}, leg{java53, killed}))
	run("transactions", false, (*relay).transactions)
	run("filters", false, (*relay).filters)
	run("pops", false, func(r *relay) {
		r.pops(leg{java53, clean}, leg{skylark, clean}, leg{java53, killed}, leg{skylark, killed}, leg{java53, clean},
			leg{skylark, clean})
	})
	run("pops-merged", false, func(r *relay) {
		r.d.props["enablePopBufferMerge"], r.d.props["enablePopBatchAck"] = "true", "true"
		r.d.props["enableRetryTopicV2"] = "true"
		r.pops(leg{java53, clean}, leg{skylark, clean}, leg{java53, clean}, leg{skylark, clean})
	})
	run("shrink", false, (*relay).shrink)
	run("queues", false, (*relay).batchAndLight)
	run("rebuild-java", testing.Short(), func(r *relay) { r.rebuilds(skylark, java53) })
	run("rebuild-skylark", false, func(r *relay) { r.rebuilds(java53, skylark) })
	run("rebuild-java-4.9", false, func(r *relay) { r.rebuilds(skylark, java49) })
}
