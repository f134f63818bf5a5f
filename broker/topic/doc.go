// Package topic keeps the topics of a broker (Java TopicConfigManager; spec messages.md §8, §10, store.md
// §10).
//
// The table is copy-on-write under an atomic pointer: lookups on the send and pull path take no lock and
// allocate nothing, changes copy the map. A *Topic is never modified once it is published.
package topic
