// Package schedule delivers messages with a delay level (Java ScheduleMessageService, spec features.md §1 and
// messages.md §9).
//
// A put with DELAY > 0 is rewritten to SCHEDULE_TOPIC_XXXX, queue level−1, with its real topic and queue in
// properties; its ConsumeQueue entry has the due time in place of the tag hash. Since every message of a
// level waits equally long, a level's queue is in order of due times: one offset a level tells what has been
// delivered. The offsets are kept in config/delayOffset.json, as Java writes it.
//
// One goroutine serves all levels. It sleeps until the earliest due time, or until a message arrives in a
// level that had none: an idle broker does nothing (Java polls every level every 100 ms).
//
// When messageDelayLevel has become shorter, what waits in the queues of the levels that are gone is delivered at its
// time (Java leaves it there). A shorter delay of a level makes what waits for longer than that due at once, as in Java:
// behind it come messages that are due earlier.
//
// After a crash the offsets are up to one flush interval old, so what was delivered since is delivered once
// more: at least once, as in Java. An offset is written only when what it skips has been flushed, also with
// ASYNC_FLUSH: the waiting message was durable long ago, and a power cut must not take it between its two
// places.
package schedule
