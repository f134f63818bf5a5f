// Package broker serves producers and consumers (Java BrokerController and its processors): it wires store, event
// loops, managers and processors together and registers the result with the name servers.
//
// # Reading guide
//
//	broker.go        what there is, how it starts and stops
//	routes.go        which processor, which pool, loop or not, for every request code
//	proc_<name>.go   one processor each; the head comment names the Java class, the codes and the deviations
//	respond.go       errors and statuses become response codes and remarks here, nowhere else
//	registrar.go     registration with the name servers
//	address.go       which address is advertised, and why
//
// The managers are packages of their own below this one and know nothing of it.
package broker
