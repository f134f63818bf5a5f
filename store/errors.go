package store

import "errors"

// The errors of the store. They come wrapped with the file and the offset.
var (
	ErrNotFound    = errors.New("store: not found")
	ErrCorrupt     = errors.New("store: corrupt file")
	ErrClosed      = errors.New("store: closed")
	ErrNotWritable = errors.New("store: not writable")
	ErrDiskFull    = errors.New("store: disk full")
	ErrLocked      = errors.New("store: directory is used by another broker")
)

// IsCorrupt tells that bytes on the disk are not what the format allows.
func IsCorrupt(err error) bool { return errors.Is(err, ErrCorrupt) }
