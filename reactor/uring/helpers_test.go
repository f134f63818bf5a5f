//go:build iouring && linux

package uring

import "time"

// patience is how long a test waits for what must happen, looking every tick.
const (
	patience = 20 * time.Second
	tick     = time.Millisecond
)
