// Package failover lets real processes fail in a network of their own and checks what clients are left with.
//
//	go test -tags interop -v ./test/failover -rounds 20 -seed 1     or: make failover ROUNDS=20 SEED=1
//
// The test binary starts itself again in new namespaces of network, mounts and processes, so that nothing is seen outside
// and everything ends with it. There, the name server, one or three controllers, two or three brokers and the clients have
// a network namespace each, joined by a router whose rules cut single directions between two nodes and whose queues make
// links slow. Every broker has a small tmpfs as its disk.
//
// A cluster is loaded by producers and consumers of our own (package client) and by real Java ones. A round is one fault:
// kill -9 or SIGSTOP of the master, of a slave, of the controllers' leader; partitions of the master from controllers, from
// slaves, from everybody, in both directions or in one; slow links; a full disk. The seed picks shapes, faults, victims and
// times. After each round, when the group has healed:
//
//   - every message that was acknowledged is stored, in the queue and at the offset that the answer told;
//   - acknowledgements went from one master to the next, no more often than the controllers elected one;
//   - both groups of consumers have had every message that was acknowledged; what they had twice is counted;
//   - progress that a group had committed long enough before the fault is still there;
//   - the CommitLogs of all replicas are equal byte by byte;
//   - sends were refused no longer than the fault's limit.
//
// TestKills gives the times of failover of our group beside those of a group of Java brokers and controllers.
//
// Servers and clients of Java come from javaoracle (Maven fetches them once into INTEROP_WORK, test/interop/.work if that is
// empty), the binary from SKYLARK (bin/skylark; built when missing). Java 17, javac and mvn have to be there, and root, and
// ip; without root or ip the tests skip, without tc the faults that need it.
package failover
