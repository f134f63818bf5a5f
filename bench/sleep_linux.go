package bench

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// preciseSleeper waits in the kernel, on a thread of its own whose timers are not slackened: some 10 µs late,
// where time.Sleep rounds waits below a millisecond up to one. The sleeping thread holds one of the
// scheduler's processors for a while, so there is one more of them meanwhile.
func preciseSleeper() (sleep func(time.Duration), done func()) {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // the default of 50 µs does as well
	addProcessor(1)
	sleep = func(d time.Duration) {
		const last = 2 * time.Millisecond
		if d > 2*last {
			time.Sleep(d - last)
			return // the caller looks at the clock and comes again
		}
		ts := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&ts, nil) // a signal ends it early, and the caller comes again
	}
	return sleep, func() {
		addProcessor(-1)
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // 0 is the default
		runtime.UnlockOSThread()
	}
}

// processors guards GOMAXPROCS: several runs may go on at a time.
var processors sync.Mutex

// addProcessor gives the scheduler n more processors than it has.
func addProcessor(n int) {
	processors.Lock()
	defer processors.Unlock()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
}
