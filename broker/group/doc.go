// Package group keeps the consumer groups of a broker (Java SubscriptionGroupManager; spec bodies.md §8,
// store.md §10). As in package topic the table is copy-on-write and a published *Group is never modified.
package group
