// Package zerocopy carries message bytes from a mapped file to a socket without passing them through the Go
// heap: Segments are ranges of mappings, each holding a reference on the file behind it; Vec hands many runs
// to the kernel in one call.
package zerocopy
