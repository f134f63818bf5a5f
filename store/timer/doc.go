// Package timer keeps messages until a time of their own (Java TimerMessageStore, spec features.md §2, store.md §8).
//
// A put with TIMER_DELAY_SEC, TIMER_DELAY_MS or TIMER_DELIVER_MS is rewritten (Rewrite) to the topic rmq_sys_wheel_timer
// with its real topic, queue and time in properties. From that queue it gets into the wheel, and when its time has come
// it is put to its real topic:
//
//	rmq_sys_wheel_timer/0 → enqueue: a unit in the TimerLog, the last of its slot in the wheel
//	slot due              → dequeue: its units from the last to the first; recalled ones drop out; the others are put
//
// # Files, all with Java's bytes
//
//	timerwheel          a slot for each step of the precision over 14 days (wheel)
//	timerlog/<offset>   a unit of 52 bytes for each message (unit)
//	config/timercheck   how far both sides have come (Checkpoint)
//	config/timermetrics waiting messages of each topic (Metrics)
//
// They are made when the first timer message comes. A time that is further ahead than timerRollWindowSlot steps gets a
// unit that rolls: when it is due, the message is put to the timer topic again. So every waiting message is in a part of
// the CommitLog that is younger than the window, and the wheel needs no more than 14 days.
//
// # Time
//
// A message with the time T waits in the slot of T rounded down, one step less if T is a multiple of the step, and is
// delivered when that slot is over: never before T, and less than a step after it. That T, TIMER_OUT_MS, never changes,
// however often the message rolls: there is no drift.
//
// # What a crash leaves
//
// The service works in memory; a second goroutine writes the files every timerFlushIntervalMs: what the state skips has
// to be flushed in the CommitLog first, then the log is synced, then the wheel, then the checkpoint. So the files never
// promise what is not there; Java flushes without that order and loses messages in a power cut.
//
// After a crash the work since the checkpoint is done again: messages that have a unit behind its position are known and
// skipped; what was delivered is found by a look through the CommitLog from the mark in the checkpoint (mark), so after a
// kill -9 nothing is delivered twice. After a power cut, or behind a Java broker that was killed, the last interval may
// be: at least once, as in Java.
//
// # Goroutines and locks
//
// TimerMessageStore.run does all the work in one goroutine; TimerMessageStore.flushLoop writes files; with
// timerWarmEnable a third reads ahead. Locks, in the order in which they are taken: flushMu (one writes files at a time),
// cpMu (the file of the checkpoint), mu (their common state). mu is a leaf: no file is read or written while it is held,
// since event loops take it for flow control; the other two are never taken on a loop.
package timer
