// Package pop hands out messages one by one instead of queue by queue (Java PopMessageProcessor and its kin, spec
// features.md 5): whoever pops gets messages that are invisible for a time, and acknowledges each by a receipt.
//
// # What is kept where
//
// A pop writes a check point into the revive topic, by way of the timer, so that it comes out when the messages are
// about to become visible again; an ack writes an ack record, due when the check point's time is over. Both are JSON in
// Java's form, a Java broker goes on where this one ended and the other way round. [ReviveService] reads the revive
// queues and puts what was not acknowledged into the group's POP retry topic.
//
// Besides, the [Service] remembers the check points of this run that are open. So a receipt that is late, used up, of
// another queue or garbled is refused, where Java answers success and ignores it, and messages return at their time and
// not two to five seconds later. Check points that it does not know (of the run before, of Java) are judged as Java
// does: by the ack records that follow them within two seconds of revive time.
//
// # Crash safety
//
// A group's offset moves over popped messages when their check point is put, and the revive offset over a check point
// when the messages that it returned are; before the offsets are written, the log is flushed. They are written every few
// seconds, and repeated at once in a mapped file (progress.go), with which a broker that was killed goes on where it was:
// what was acknowledged does not come again, unless the ack was in memory only (enablePopBufferMerge). A power cut may
// repeat messages, it loses none.
//
// # Acting masters
//
// A slave that acts as master serves POP with the help of another broker, see acting.go.
//
// # Deviations
//
// A message that would be returned more often than the group's retryMaxTimes goes to the dead letters; Java's broker
// leaves that to the clients, and a group that allows no retries gets them for ever. Two pops of one queue wait for
// each other, where Java passes over the queue. An orderly ack without any order information is refused; Java commits
// the offset behind it, over whatever was not acknowledged.
package pop
