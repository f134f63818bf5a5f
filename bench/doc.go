// Package bench puts load on a RocketMQ broker, Skylark's or Java's, and measures what comes back. The
// command is `skylark bench produce|consume|e2e|pop|idle`; tests of crashes use the package itself.
//
// # What is measured
//
// Closed loop (without a rate): each connection keeps a window of requests under way and sends the next one
// when an answer comes. Throughput is the result; latencies say only how long the window queues.
//
// Open loop (with a rate): messages are due at fixed times, whatever the broker does, and latency counts from
// the time a message was DUE. A broker that stalls for 100 ms is charged for all messages that were due
// meanwhile, not only for those that were under way. What the generator itself was late is measured too
// (lag), so that nobody takes the machine's delay for the broker's.
//
// End to end: an open loop whose messages carry the time they were due, and consumers that wait for them in
// long polls.
//
// Kinds of messages: delays and timers are properties of the sends. Of a transaction the half message and its
// END_TRANSACTION are both answered, and counted as one. POP takes messages and acknowledges each; latency is from the pop
// to the answer of the ack. Thousands of groups can share a few connections (--share), as the consumers of one process do.
//
// # What a message costs the generator
//
// One connection has one goroutine that reads. It takes all answers of one read, records them with one look
// at the clock, appends as many new requests to one buffer and writes that at once; so system calls, locks
// and clock reads are shared by all messages of a turn. A request is a copy of an encoded frame with a few
// bytes overwritten (client.SendTemplate), an answer is read for its code and its opaque alone
// (client.PeekAnswer), and the opaque is the index of a slot that remembers when the request was due. Nothing
// is allocated for a message.
//
// In an open loop one goroutine, alone on its thread, keeps the time for all connections: timers of the Go
// scheduler are up to a millisecond late, which at 3,000 messages a second would be most of the latency.
//
// # Verification
//
// Bodies of at least StampBytes begin with a stamp: run, producer, sequence number, time due. The producer
// keeps what was acknowledged, in memory or in a Ledger file; a Checker compares that with what was seen.
package bench
