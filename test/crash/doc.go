// Package crash kills the real binary with SIGKILL under load and checks what is left: every message acknowledged under
// SYNC_FLUSH is there after the restart, once and whole, queue offsets have no gaps, and numbering goes on.
//
// A killed process leaves its dirty pages to the kernel, so this proves less than a power cut would; that part is the
// crash harness of store/storetest, which tears pages.
package crash
