// Package admin is what `skylark admin` does: operations that mqadmin does not have. Everything else works with Java's
// mqadmin as it is.
//
//	handover   gives the role of master to another replica while clients send (SKYLARK_HANDOVER), or, in a group without
//	           controllers, takes a broker out of use so that it can be stopped: --drain, and --undo
package admin
