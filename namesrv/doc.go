// Package namesrv is the name server: brokers register their topics with it, clients ask it for routes (Java
// module rocketmq-namesrv; spec namesrv.md). Its state is in memory, name servers do not talk to each other;
// only the KV configuration and changed settings are kept in files.
//
// # Core and shell
//
// RouteInfoManager is the core: tables and their rules, no I/O, no goroutine, no clock. Its methods take the
// time and return Effects: connections to close, brokers to notify, lines to log. NameServer is the shell: an
// engine, the processors (proc_*.go, by Java's request families), one timer for silent brokers, a sender of
// notifications. A name server without traffic and without brokers runs nothing at all.
//
// # Route queries
//
// Request 105 is what thousands of clients send every 30 s. Its answer is kept encoded, so a query costs a
// look-up under a lock that is held for nanoseconds and one copy, no allocation; it is served on the event
// loop. An answer that is not there is built under the read lock if nobody waits for the write lock, else in
// the pool.
//
// # Who may register what
//
// An address is registered once: what it was registered as before under another name, cluster or id is void.
// An id of a broker name has one address. Where Java takes the later registration, these rules decide:
//
//	one broker name in two clusters  the first keeps it; the other is refused with code 1 and both
//	                                 addresses, and gets the name once the first is gone (Java mixes them)
//	id held by another address       an older stateVersion is ignored with code 0, as in Java
//	id 0 held by another address     older data is refused with code 1 while the holder is fresh, heard of
//	                                 within half of its heartbeat timeout: a node that comes back with old
//	                                 data and does not know yet that it is no master any more (Java lets it
//	                                 take over)
//	UNREGISTER_BROKER                needs name, cluster, id and address to be those registered
//
// The end of a connection removes what that very connection registered last, and nothing that another one has
// registered since; expiry looks at the time again under the lock that removes.
//
// # Further deviations from Java
//
// UNREGISTER_BROKER is done when it is answered; Java queues it (unRegisterBrokerQueueCapacity has no meaning
// here). A refused first registration leaves no empty broker name behind. QUERY_DATA_VERSION says changed
// also when the address is registered under another id, so that a broker whose role changed registers again.
// A registration of one topic never deletes others, whatever deleteTopicWithBrokerRegistration says: it is an
// increment. Static topics go with their broker. Java's clusterTest mode, which asks a name server of another
// environment, is not there.
package namesrv
