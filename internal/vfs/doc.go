// Package vfs is the file system seam of Skylark: every byte that store, ha and the configuration managers
// keep goes through FS, so the same code runs on the disk, in memory and under injected faults.
//
// The one operation that ordinary file interfaces hide is the mapping: stores into a mapping bypass any
// Write call. Mapping is therefore part of the interface, and the crashable FS backs it with heap memory
// plus a shadow "durable" image, so that a crash test sees just what a power cut would have left.
//
// There are three implementations:
//
//	OS        the disk (disk*.go): fallocate, fdatasync, msync, madvise, mincore, fcntl record locks.
//	MemFS     memory (mem*.go): CrashClone answers "what would be on the disk had the power gone now?".
//	errorfs   (internal/vfs/errorfs) wraps either and makes chosen calls fail, written as small expressions.
//
// # How a stray SIGBUS is ruled out
//
// A store into a mapping raises SIGBUS when the page lies past the end of the file or when the file system
// has no block left for a hole. Go cannot turn that into an error on an arbitrary goroutine, so it must not
// be able to happen:
//
//   - Map refuses a range that ends past the end of the file;
//   - Truncate and Create refuse with ErrMapped to shrink a file below a live mapping of this process;
//   - Allocate reserves real blocks, and where the file system has no fallocate it writes the zeros itself.
//
// A caller that maps an old file for writing (Java's broker leaves sparse files behind) calls Allocate on
// the range first; that keeps the content. What is left is a disk that loses blocks and a foreign process
// that truncates.
package vfs
