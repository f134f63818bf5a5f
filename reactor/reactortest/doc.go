// Package reactortest is the contract of reactor.Engine as one test suite, run over every engine. An engine's
// test package has
//
//	var harness = reactortest.Harness{New: …, Sockets: true}
//	func TestMain(m *testing.M)        { reactortest.Main(m, harness) }
//	func TestContract(t *testing.T)    { reactortest.Run(t, harness) }
//
// The suite's own handler (server.go) obeys the frames it is sent: the header is a small command such as
// "echo", "heap 100000", "mapped 3 1000", "later", "panic". It checks by itself that calls for one connection
// never overlap and that OnClose comes once, and counts the references of the mapped ranges it sends.
package reactortest
