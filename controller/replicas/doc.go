// Package replicas is what a group of controllers agrees on: who the replicas of each broker name are, which of them is
// master, and which have everything that was confirmed (SyncStateSet). It is a pure state machine (Java
// ReplicasInfoManager, BrokerReplicaInfo, SyncStateInfo, DefaultElectPolicy; spec ha.md §6): [State.Apply] takes an
// [Event] and gives a [Decision]. There is no clock, no I/O, no goroutine and no random number in it, so every
// controller that applies the same events in the same order has the same state and gave the same decisions.
//
// # Where a decision is made
//
// Java's leader decides on its own tables, writes the outcome to the log, and every controller follows. What it decided
// on may be overtaken by what is in the log before it. Here the question is what stands in the log, with what the asking
// controller knew about living brokers ([Event.Live], [Event.Unknown]), and it is decided where it stands in the order
// of all events: fences (master epoch, epoch of the set) are compared with the state as it is at that place, and two
// controllers that both took themselves for the leader cannot decide against each other.
//
// # Rules that hold in every state
//
//   - masterEpoch of a broker name never falls and rises with every new master, and with the loss of one; that of a new
//     master is higher than any a living replica knows of;
//   - a master is in the SyncStateSet; a new master is alone in it;
//   - members of the SyncStateSet are registered replicas;
//   - an id below NextID is not handed out again, also after its replica was cleaned;
//   - without unclean election the master is a member of the SyncStateSet of the master before it. The exceptions are the
//     first master, and the first one after an operator has cleaned every member of the set.
//
// # Deviations from Java
//
// An election for an id that is not registered is refused. Cleaning the last member of a SyncStateSet keeps the epochs
// (Java forgets the set with its epochs and leaves the other replicas unusable); cleaning given ids removes those also
// when living ones may be removed (Java then removes all). Registering with a new address answers
// with the new address. Of equal candidates the one with the lowest id wins (Java keeps any). An election that the
// controller itself asked for names the master epoch it has seen, and is void when there has been another one.
package replicas
