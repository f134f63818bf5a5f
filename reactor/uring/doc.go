// Package uring is the engine on io_uring, by github.com/pawelgaczynski/giouring. It is compiled with the tag
// iouring on Linux; the linker needs -checklinkname=0. Probe tells whether this kernel and container let it run.
package uring
