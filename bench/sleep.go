package bench

import "time"

// sleeper gives what an open loop waits with, for the calling goroutine, and what ends its use.
func (o *Options) sleeper() (sleep func(time.Duration), done func()) {
	if o.sleep != nil {
		return o.sleep, func() {}
	}
	return preciseSleeper()
}
