// Package controller proves that real Java 5.3.3 brokers in controller mode work with Skylark's controllers, and so do the
// controller commands of the real mqadmin.
//
//	go test -tags interop -v ./test/controller
//
// Three controllers, a name server and two Java brokers of one broker name run as processes. The master is killed, the
// other one takes over with everything that was acknowledged; the leader of the controllers is killed; brokers come back;
// mqadmin asks and changes. Servers and mqadmin come from javaoracle (Maven fetches them once into INTEROP_WORK,
// test/interop/.work if that is empty), the binary from SKYLARK (bin/skylark; built when missing). Java 17 or newer and
// mvn have to be there.
package controller
