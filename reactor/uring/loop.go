//go:build iouring && linux

package uring

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"

	"skylark/codec"
	"skylark/reactor"
)

// loop is one ring on one thread. A turn of it is a single io_uring_enter that submits what the last turn
// produced and waits, and then all completions.
type loop struct {
	eng  *Engine
	load atomic.Int32 // connections given to it

	// mail for the loop
	mu     sync.Mutex
	mail   []*conn
	quit   bool
	asleep atomic.Bool // in io_uring_enter, or about to be: mail needs a wake-up
	wakefd int
	done   chan struct{}

	// of the thread
	ring     ring
	spare    []*conn // the mail being read
	slots    []*conn // by number; 0 is nobody's
	free     []uint32
	cqes     []*giouring.CompletionQueueEvent
	frames   []codec.Frame
	out      *reactor.Outbox
	boxes    []*reactor.Outbox
	ops      []*sendOp // by number
	freeOps  []*sendOp
	waiting  []*conn // for a free op
	wakeWord arena
	opMem    arena
	inline   uint32 // answers of this turn in the ring: they complete while they are submitted
	hurry    bool   // something waits for one of them
}

// yieldEvery is how often a loop goes through Go's scheduler. The monitor (runtime.retake) takes its P from a goroutine
// that the scheduler has not seen for 10 ms whenever it meets it in a system call, that is, at every look at a loop that
// mostly waits, and each P it takes keeps it looking every 20 µs: 9 to 10 µs of CPU a message at 3,000 a second. A
// yield of a locked goroutine costs two switches of threads, at 5 ms nothing that can be seen.
const yieldEvery = 5 * time.Millisecond

// startLoop returns when the loop runs, or why it cannot.
func startLoop(e *Engine) (*loop, error) {
	lp := &loop{
		eng: e, slots: make([]*conn, 1), done: make(chan struct{}), out: &reactor.Outbox{},
		cqes:   make([]*giouring.CompletionQueueEvent, maxBatch),
		frames: make([]codec.Frame, 0, reactor.MaxBatchFrames),
	}
	ready := make(chan error, 1)
	go lp.run(ready)
	if err := <-ready; err != nil {
		<-lp.done
		return nil, err
	}
	return lp, nil
}

func (lp *loop) run(ready chan<- error) {
	defer close(lp.done)
	runtime.LockOSThread() // the ring takes requests of the thread that made it only
	defer runtime.UnlockOSThread()
	err := lp.open()
	defer lp.close()
	ready <- err
	if err != nil {
		return
	}
	lp.armWake()
	yielded := time.Now()
	for lp.readMail() {
		if now := time.Now(); now.Sub(yielded) > yieldEvery {
			runtime.Gosched()
			yielded = now
		}
		lp.wait()
		lp.complete()
	}
}

func (lp *loop) open() (err error) {
	if lp.wakefd, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		lp.wakefd = -1
		return fmt.Errorf("reactor: eventfd: %w", err)
	}
	if lp.wakeWord, err = newArena(8); err != nil {
		return err
	}
	if lp.ops, lp.opMem, err = newSendOps(); err != nil {
		return err
	}
	lp.freeOps = append(lp.freeOps, lp.ops...)
	return lp.ring.open(lp.eng.opts.ReadBufferBytes)
}

// close frees what open made, also after a failed one.
func (lp *loop) close() {
	lp.ring.close()
	lp.opMem.free()
	lp.wakeWord.free()
	if lp.wakefd >= 0 {
		_ = unix.Close(lp.wakefd)
	}
}

// stop ends the loop. It has no connections any more.
func (lp *loop) stop() {
	lp.mu.Lock()
	lp.quit = true
	lp.mu.Unlock()
	lp.wake()
	<-lp.done
}

// post has the loop look at c. It may be called from any goroutine and with c.Mu held.
func (lp *loop) post(c *conn) {
	if c.posted.Swap(true) {
		return
	}
	lp.mu.Lock()
	lp.mail = append(lp.mail, c)
	lp.mu.Unlock()
	lp.wake()
}

func (lp *loop) wake() {
	if lp.asleep.CompareAndSwap(true, false) {
		one := [8]byte{1}
		_, _ = unix.Write(lp.wakefd, one[:]) // blocks only after 2^64 of them
	}
}

// readMail looks at all connections that were posted; false ends the loop.
func (lp *loop) readMail() bool {
	lp.mu.Lock()
	mail, quit := lp.mail, lp.quit
	lp.mail = lp.spare[:0]
	lp.mu.Unlock()
	for i, c := range mail {
		mail[i] = nil
		c.posted.Store(false)
		lp.attend(c)
	}
	lp.spare = mail
	return !quit
}

// attend does what c's state calls for.
func (lp *loop) attend(c *conn) {
	if c.slot == 0 && !c.finishing {
		lp.adopt(c)
	}
	switch {
	case c.finishing:
		c.tryEnd()
	case c.Closing.Load():
		c.finish(nil)
	default:
		c.writeOn()
		if c.resumed.Swap(false) {
			c.serve(nil)
		}
	}
}

// adopt gives c a slot and begins to receive. The first receive is a single one, since the connection may turn
// out to be another engine's.
func (lp *loop) adopt(c *conn) {
	if n := len(lp.free); n > 0 {
		c.slot = lp.free[n-1]
		lp.free = lp.free[:n-1]
		lp.slots[c.slot] = c
	} else {
		c.slot = uint32(len(lp.slots))
		lp.slots = append(lp.slots, c)
	}
	c.receive()
}

// forget is called when nothing of c is in the ring.
func (lp *loop) forget(c *conn) {
	lp.slots[c.slot] = nil
	lp.free = append(lp.free, c.slot)
	lp.load.Add(-1)
}

func (lp *loop) armWake() {
	e := lp.ring.entry()
	e.PrepareRead(lp.wakefd, lp.wakeWord.address(), 8, 0)
	e.UserData = tag(kindWake, 0)
}

// wait submits and, if nothing is there yet, waits for a completion. The sends of this turn complete inside the
// call: they are no reason to return.
func (lp *loop) wait() {
	var err error
	if lp.ring.CQReady() > 0 || !lp.sleepy() {
		_, err = lp.ring.SubmitAndGetEvents()
	} else {
		wanted := 1 + lp.inline
		if lp.hurry {
			wanted = 1
		}
		_, err = lp.ring.SubmitAndWait(wanted)
	}
	lp.asleep.Store(false)
	lp.inline, lp.hurry = 0, false
	if err != nil && !transient(err) {
		panic(fmt.Sprintf("FATAL: reactor: io_uring_enter: %v", err))
	}
}

// sleepy announces that the loop is about to wait; false: there is mail.
func (lp *loop) sleepy() bool {
	lp.asleep.Store(true)
	lp.mu.Lock()
	defer lp.mu.Unlock()
	return len(lp.mail) == 0 && !lp.quit
}

// complete serves the completions that are there, at most maxBatch.
func (lp *loop) complete() {
	n := lp.ring.PeekBatchCQE(lp.cqes)
	for _, cqe := range lp.cqes[:n] {
		number := uint32(cqe.UserData)
		switch kind(cqe.UserData >> kindShift) {
		case kindReceive:
			lp.slots[number].received(cqe.Res, cqe.Flags)
		case kindSend:
			lp.sent(lp.ops[number], cqe.Res)
		case kindCancel:
			c := lp.slots[number]
			c.inflight--
			c.cancelled()
		case kindWake:
			lp.armWake()
		}
	}
	lp.ring.CQAdvance(n)
	lp.ring.publish()
}
