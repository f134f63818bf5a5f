// Package conn knows the clients of a broker: consumer groups with their members and subscriptions, and
// producer groups (Java ConsumerManager, ConsumerGroupInfo, ProducerManager; spec request-codes.md §4,
// bodies.md §4).
//
// Membership follows the connection: it ends when the connection closes or has not been heartbeated for 120
// s. Lookups on the pull path (group, subscription) take no lock.
package conn
