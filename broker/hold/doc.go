// Package hold parks requests that found nothing until a message arrives or their time is up: long polling
// (Java PullRequestHoldService, spec request-codes.md §2 "Long poll").
//
// # No lost wake-up
//
// A message that is stored between a miss and the parking would otherwise wait for the next one (Java: up to
// five seconds, apache/rocketmq#7358). Park inserts first and then asks again whether the queue has grown
// past the wanted offset; Arrived runs after the queue has grown and looks at the table under the same lock.
// So one of the two always sees the other.
//
// The same holds for everything else after which a waiter would wait for what cannot come, or does not concern it
// any more: a deleted topic (the end of its queues is 0 then, which Park sees; or WakeTopic finds the waiter), a
// reset offset, a queue that is taken from the topic (the caller asks again after Park, and WakeQueue is called after
// the change).
//
// # Cost
//
// A message that nobody waits for costs one atomic load. A wake-up runs in the goroutine that reports the
// arrival: no hand-over to another one.
package hold
