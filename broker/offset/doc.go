// Package offset keeps how far each consumer group has come (Java ConsumerOffsetManager; spec store.md §10).
//
// The table is group → topic → queue. A commit finds its queue without allocating and sets one atomic number;
// the tables are copy-on-write, so commits of known queues take no lock. consumerOffset.json is written every
// flushConsumerOffsetInterval when something has changed, else not at all.
package offset
