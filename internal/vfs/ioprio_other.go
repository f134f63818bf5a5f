//go:build !linux

package vfs

// LowerIOPriority has no equal here.
func LowerIOPriority() {}
