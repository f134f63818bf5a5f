// Package ha (build tag interop) runs pairs of brokers, Skylark and real Java in both roles, and compares what they have:
// `go test -tags interop ./test/ha`. Java's jars come from Maven and stay in INTEROP_WORK.
package ha
