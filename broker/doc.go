// Package broker serves producers and consumers (Java BrokerController and its processors): it wires store,
// event loops, managers and processors together and registers the result with the name servers.
//
// # Reading guide
//
//	broker.go        what there is, how it starts and stops
//	tasks.go         what runs by the clock
//	clients.go       connections come and go; members of groups are told
//	routes.go        which processor, which pool, loop or not, for every request code
//	proc_<name>.go   one processor each; the head comment names the Java class, the codes and the deviations
//	send_message.go  from the fields of a send to the message that is stored
//	pull_hold.go     pulls that wait for messages
//	respond.go       errors and statuses become response codes and remarks here, nowhere else
//	inflight.go      answers that wait for a flush or a client, so that a stop waits for them
//	readers.go       goroutines that may wait for the disk
//	registrar.go     registration with the name servers
//	address.go       which address is advertised, and why
//
// The managers are packages of their own below this one and know nothing of it.
package broker
