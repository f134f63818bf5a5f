// Package latency explains where the time of a request goes: histograms of every stage, cheap enough to stay on, and a
// trace of the requests that were slow.
//
// # Span, stage, class
//
// A Span is the timeline of one turn (the requests that one read brought, package reactor/rpc), of one unit of a
// business pool, or of a parked pull that is served. Whoever serves it says with Enter in which Stage it is; the classes
// (send, pull, wake, other) keep apart what is not alike. All requests of a turn get the turn's times, because their
// answers leave together.
//
// Stages are a list: a new one (the wait for replicas) is a constant and a name, everything else goes by the list.
//
// # What it costs
//
// A clock read costs 30 to 50 ns where a send costs 2 to 10 µs, so they are counted:
//
//	per turn           two reads: when it begins (in place of the one that told the wall time, and cheaper than it)
//	                   and when its answers were written; one atomic add for each class in it
//	per change of      one read, in one of SampleEvery turns; in all turns for a minute after a slow one, and in those
//	stage              that wait anyway (business pools, flush)
//
// A stage's counts of sampled turns weigh SampleEvery, so that they compare to the totals. Counters are by shard (one for
// each CPU, given to whoever reuses a span), added to without a lock, read by Snapshot.
//
// A slow request whose turn was not sampled is told by what is known without a clock (the wait in the queue, for the put
// lock, for the flush); what is left stands as "unsampled". The next minute is traced in full.
package latency
