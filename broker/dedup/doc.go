// Package dedup recognises a message that was sent again: its producer got no answer and sent it once more under the same
// unique id (property UNIQ_KEY). It is ours, RocketMQ has nothing like it, and it is off unless a broker is told so
// (duplicateSuppressionEnable); what it promises, and what not, stands in docs/compat.md.
//
// # A window for each topic
//
// A Window remembers the ids of a topic's last messages: at most Count of them, none older than Keep. Of each it keeps 64
// bytes: a hash of the id with 128 bits and a seed of this process's own (so that nobody can make two ids meet, and none
// meet by chance), and where the message is, which is all that the first answer said. Two to four slots of an index come
// to that, about 80 bytes a message in all.
//
// # First come
//
// A send claims its id before it is put:
//
//	Fresh    the id is new. The Ticket is settled with Store after the put, or with Drop when that failed.
//	Known    the message is stored; Found says where. Whether it is durable yet is for the caller to see to (Found.End).
//	Pending  another send of the same id is being put. The caller asks again when Wait returns, and must not wait with
//	         tickets of its own unsettled: two who wait for each other would both wait in vain.
//
// A claim that nobody settles is void after claimLimit.
//
// # Memory
//
// All windows together hold MaxMessages. A window that may not grow forgets its oldest message early, which is counted;
// Sweep gives back what windows no longer need and, when one could not grow, halves the largest, so that no topic keeps the
// others out. What does not fit at all is stored without being remembered.
//
// # Cost
//
// Nothing is allocated for a message, only when a window grows. A claim takes two hashes, one lock of a 16th of the window,
// and two cache lines; settling it the lock once more.
package dedup
