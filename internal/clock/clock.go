// Package clock is the time seam: logic that a simulation or test must control asks a Clock instead of package time.
package clock

import "time"

// Clock tells time and makes timers.
type Clock interface {
	Now() time.Time
	// Millis is Now in milliseconds since 1970, the unit of every RocketMQ timestamp.
	Millis() int64
	// AfterFunc runs f in its own goroutine after d. Stop on the result cancels it.
	AfterFunc(d time.Duration, f func()) Timer
	// NewTicker ticks every d until stopped.
	NewTicker(d time.Duration) Ticker
}

// Timer can be stopped; Stop is false when it already ran.
type Timer interface{ Stop() bool }

// Ticker delivers ticks on C until Stop.
type Ticker interface {
	C() <-chan time.Time
	Stop()
}

// System is the machine's clock. Under testing/synctest it is the bubble's virtual clock.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time                            { return time.Now() }
func (system) Millis() int64                             { return time.Now().UnixMilli() }
func (system) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
func (system) NewTicker(d time.Duration) Ticker          { return sysTicker{time.NewTicker(d)} }

type sysTicker struct{ *time.Ticker }

func (t sysTicker) C() <-chan time.Time { return t.Ticker.C }
