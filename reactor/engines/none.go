//go:build !iouring || !linux

package engines

// uring is nil: the engine is compiled with the tag iouring.
var uring *ring
