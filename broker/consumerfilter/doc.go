// Package consumerfilter keeps the SQL92 subscriptions of consumer groups (Java ConsumerFilterManager; spec
// features.md §8, store.md §10): which expression a group had on a topic, since when, and which bits of a
// message's bit map stand for it. An entry outlives its group for a day, so that bit maps made meanwhile stay
// of use when it comes back. config/consumerFilter.json is written when something has changed, else not at
// all.
package consumerfilter
