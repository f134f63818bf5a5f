// Package storetest checks that a message store does what brokers and consumers rely on. It has two parts, both of which
// any store behind the methods of Store can be put through:
//
//   - Run is the contract: one suite of small scenarios, each over tiny files so that rolls, restarts and deletions
//     happen within a few messages.
//   - Crash is the crash harness: a random script of operations on a MemFS; after every operation the power is cut, the
//     remains are recovered, and what comes up is compared with what was acknowledged and with the log itself.
//
// A failure prints the seed. `go test ./store/storetest -run Crash -seed N` repeats a script; -firstseed, -scripts and
// -crashops make the run longer.
package storetest
