// Package member knows who of a broker group is alive and what follows from it (Java BrokerController.updateMinBroker,
// enableSlaveActingMaster): the slave with the smallest id acts as master while there is none. It is a plain struct; the
// broker asks the name server and carries out what it says.
package member
