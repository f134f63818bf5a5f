// Package replicas is a broker's side of the controller mode (Java ReplicasManager; spec ha.md §6): it finds the leading
// controller, gets an id, registers, says every second that the broker is alive, and learns which role the broker has.
//
// # Core and shell
//
// Manager decides and does nothing: no goroutine, clock, socket or disk. It is told the time, the answers of controllers,
// what controllers say of themselves, and what became of a change of role; its Output says which requests to send, what
// to write to disk, and which role to take. Service is the shell that does it in a broker; a simulation drives the same
// Manager.
//
// # From start to running
//
//	find      CONTROLLER_GET_METADATA_INFO to all of controllerAddr until one leads
//	id        brokerIdentity, or: get next id, write brokerIdentity-temp, apply, write brokerIdentity, remove -temp
//	register  the address; the answer names the master, if one lives
//	elect     no master: ask to be elected
//	running   the first role is taken. The broker was fenced until here
//
// From then on it asks every syncBrokerMetadataPeriod who is master; what NOTIFY_BROKER_ROLE_CHANGED says comes first as a
// rule. Whatever names a higher master epoch than ours changes the role, the order of messages does not matter.
//
// # A master that was killed
//
// A process that was killed and comes back within seconds may still be the master in the controllers' eyes. If the machine
// lost power, its log may have lost its end, which others of the SyncStateSet have. So after an unclean stop it keeps silent
// at first (Options.Unclean): either the controllers take it for dead and elect one of the others, or after the time that
// takes it is master again. Java takes the role at once.
//
// # Files, as Java has them
//
//	<root>/brokerIdentity       cluster#name#id
//	<root>/brokerIdentity-temp  cluster#name#id#address;millis while the id is being applied for
package replicas
