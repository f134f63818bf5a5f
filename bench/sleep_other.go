//go:build !linux

package bench

import "time"

// preciseSleeper is the scheduler's own timer here.
func preciseSleeper() (sleep func(time.Duration), done func()) { return time.Sleep, func() {} }
