package store

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// runningFlag is a reason not to read or not to write (Java RunningFlags; same bits).
type runningFlag uint32

const (
	flagNotReadable      runningFlag = 1 << iota
	flagNotWritable                  // a flush failed: nobody knows what is on the disk
	flagLogicsQueueError             // a ConsumeQueue could not be written
	flagIndexFileError
	flagDiskFull
	flagFenced // another master took over
	flagLogicDiskFull
	flagClosed // ours: the store is not started or already closed
	flagSlave  // ours: the log is a copy of a master's
	flagPaused // ours: puts wait for a hand-over (PausePuts)
)

// flagsThatStopWrites are those with which a put is refused.
const flagsThatStopWrites = flagNotWritable | flagLogicsQueueError | flagIndexFileError | flagDiskFull | flagFenced |
	flagLogicDiskFull | flagClosed | flagSlave | flagPaused

const (
	// flagsUnderLock are those that a put under way meets as well.
	flagsUnderLock = flagClosed | flagPaused
	// flagsThatStopCopies are those with which a slave takes no more of its master's log: a pause holds up no copying.
	flagsThatStopCopies = flagsThatStopWrites &^ (flagSlave | flagPaused)
	// flagsThatStopFlushes are those with which nothing gets durable any more. They stay up.
	flagsThatStopFlushes = flagNotWritable | flagClosed
)

var flagTexts = []struct {
	flag runningFlag
	text string
	err  error
}{
	{flagClosed, "the store is not running", ErrClosed},
	{flagNotWritable, "a write to the disk failed", nil},
	{flagLogicsQueueError, "a ConsumeQueue could not be written", nil},
	{flagIndexFileError, "an IndexFile could not be written", nil},
	{flagDiskFull, "the disk of the CommitLog is too full", ErrDiskFull},
	{flagLogicDiskFull, "the disk of the ConsumeQueues is too full", ErrDiskFull},
	{flagFenced, "another master took over", nil},
	{flagSlave, "the broker is a slave", nil},
	{flagPaused, "puts are paused", nil},
}

// runningFlags tells whether the store takes messages. The hot path reads one word.
type runningFlags struct {
	bits atomic.Uint32

	mu     sync.Mutex
	reason map[runningFlag]error // why a flag was set
}

// set raises a flag; changed is false when it was raised before (the first reason stays).
func (f *runningFlags) set(flag runningFlag, why error) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if runningFlag(f.bits.Load())&flag != 0 {
		return false
	}
	if f.reason == nil {
		f.reason = make(map[runningFlag]error)
	}
	f.reason[flag] = why
	f.bits.Or(uint32(flag))
	return true
}

// clear lowers a flag.
func (f *runningFlags) clear(flag runningFlag) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if runningFlag(f.bits.Load())&flag == 0 {
		return false
	}
	delete(f.reason, flag)
	f.bits.And(^uint32(flag))
	return true
}

func (f *runningFlags) has(flag runningFlag) bool { return runningFlag(f.bits.Load())&flag != 0 }

// refusal tells why what the flags of stops hold up is refused: ErrNotWritable with a reason for each of them that is up,
// nil if none is. Answer and reasons are of one moment. The hot path reads one word.
func (f *runningFlags) refusal(stops runningFlag) error {
	if !f.has(stops) {
		return nil
	}
	return f.reasons(stops)
}

// reasons is refusal where a flag was seen, which may be down again.
func (f *runningFlags) reasons(stops runningFlag) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	bits := runningFlag(f.bits.Load()) & stops
	if bits == 0 {
		return nil
	}
	var texts []string
	causes := []error{ErrNotWritable}
	for _, ft := range flagTexts {
		if bits&ft.flag == 0 {
			continue
		}
		text := ft.text
		if why := f.reason[ft.flag]; why != nil {
			text += ": " + why.Error()
			causes = append(causes, why)
		}
		if ft.err != nil {
			causes = append(causes, ft.err)
		}
		texts = append(texts, text)
	}
	return &notWritableError{text: strings.Join(texts, "; "), causes: causes}
}

// notWritableError prints each reason once and is all of them to errors.Is.
type notWritableError struct {
	text   string
	causes []error
}

// Error implements error.
func (e *notWritableError) Error() string { return fmt.Sprintf("%v: %s", ErrNotWritable, e.text) }

// Unwrap gives the causes to errors.Is.
func (e *notWritableError) Unwrap() []error { return e.causes }
