//go:build unix && !linux

package gnet

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"skylark/reactor/internal/conns"
)

// drainer tells connections that their socket takes bytes again: poll(2) over those that wait. It is written
// for development machines; its cost grows with the number of slow readers.
type drainer struct {
	table *conns.Table
	pipe  [2]int // wakes the goroutine when the set changes
	start sync.Once
	done  chan struct{}

	mu      sync.Mutex
	waiting map[uint64]int // number -> descriptor
	stop    bool
}

func newDrainer(t *conns.Table) (*drainer, error) {
	d := &drainer{table: t, waiting: map[uint64]int{}}
	if err := unix.Pipe(d.pipe[:]); err != nil {
		return nil, os.NewSyscallError("pipe", err)
	}
	for _, fd := range d.pipe {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			_, _ = unix.Close(d.pipe[0]), unix.Close(d.pipe[1])
			return nil, os.NewSyscallError("fcntl", err)
		}
	}
	return d, nil
}

// arm has c.writable called once, when the socket takes bytes. c.Mu is held and c is not closed.
func (d *drainer) arm(c *conn) error {
	d.mu.Lock()
	d.waiting[c.ID()] = c.fd
	d.mu.Unlock()
	d.start.Do(func() {
		d.done = make(chan struct{})
		go d.run()
	})
	d.wake()
	return nil
}

// forget is called with c.Mu before the descriptor is closed. A poll that runs may still name it; what it
// reports is looked up by number and finds the connection closed.
func (d *drainer) forget(c *conn) {
	d.mu.Lock()
	delete(d.waiting, c.ID())
	d.mu.Unlock()
}

func (d *drainer) wake() { _, _ = unix.Write(d.pipe[1], []byte{1}) } // a full pipe wakes as well

func (d *drainer) run() {
	defer close(d.done)
	var fds []unix.PollFd
	var ids []uint64
	var scratch [256]byte
	for {
		fds = append(fds[:0], unix.PollFd{Fd: int32(d.pipe[0]), Events: unix.POLLIN})
		ids = append(ids[:0], 0)
		d.mu.Lock()
		if d.stop {
			d.mu.Unlock()
			return
		}
		for id, fd := range d.waiting {
			fds, ids = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT}), append(ids, id)
		}
		d.mu.Unlock()
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			panic(fmt.Sprintf("BUG: reactor: poll: %v", err))
		}
		if fds[0].Revents != 0 {
			_, _ = unix.Read(d.pipe[0], scratch[:])
		}
		for i := 1; i < len(fds); i++ {
			if fds[i].Revents == 0 {
				continue
			}
			d.mu.Lock()
			delete(d.waiting, ids[i])
			d.mu.Unlock()
			if m := d.table.Get(ids[i]); m != nil {
				m.(*conn).writable()
			}
		}
	}
}

// close ends the goroutine; no connection is left.
func (d *drainer) close() {
	d.start.Do(func() {})
	d.mu.Lock()
	d.stop = true
	d.mu.Unlock()
	if d.done != nil {
		d.wake()
		<-d.done
	}
	_, _ = unix.Close(d.pipe[0]), unix.Close(d.pipe[1])
}
