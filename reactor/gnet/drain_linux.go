package gnet

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"skylark/reactor/internal/conns"
)

// drainer tells connections that their socket takes bytes again.
type drainer struct {
	table *conns.Table
	epfd  int
	evfd  int // wakes the goroutine for its end
	start sync.Once
	done  chan struct{}
}

// newDrainer makes the descriptors now: when they are needed there may be none left.
func newDrainer(t *conns.Table) (*drainer, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("reactor: epoll_create1: %w", err)
	}
	evfd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		_ = unix.Close(epfd)
		return nil, fmt.Errorf("reactor: eventfd: %w", err)
	}
	d := &drainer{table: t, epfd: epfd, evfd: evfd}
	if err := unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, evfd, event(unix.EPOLLIN, 0)); err != nil {
		_, _ = unix.Close(evfd), unix.Close(epfd)
		return nil, fmt.Errorf("reactor: epoll_ctl: %w", err)
	}
	return d, nil
}

// event carries a connection's number, 0 for the end; Fd and Pad are the kernel's 64 bits of user data.
func event(events uint32, id uint64) *unix.EpollEvent {
	return &unix.EpollEvent{Events: events, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
}

// arm has c.writable called once, when the socket takes bytes. c.Mu is held and c is not closed.
func (d *drainer) arm(c *conn) error {
	op := unix.EPOLL_CTL_MOD
	if !c.watched {
		op = unix.EPOLL_CTL_ADD
	}
	if err := unix.EpollCtl(d.epfd, op, c.fd, event(unix.EPOLLOUT|unix.EPOLLONESHOT, c.ID())); err != nil {
		return fmt.Errorf("reactor: cannot watch a slow connection: %w", err)
	}
	c.watched = true
	d.start.Do(func() {
		d.done = make(chan struct{})
		go d.run()
	})
	return nil
}

// forget is called with c.Mu before the descriptor is closed.
func (d *drainer) forget(c *conn) {
	if c.watched {
		_ = unix.EpollCtl(d.epfd, unix.EPOLL_CTL_DEL, c.fd, nil)
		c.watched = false
	}
}

func (d *drainer) run() {
	defer close(d.done)
	var events [128]unix.EpollEvent
	for {
		n, err := unix.EpollWait(d.epfd, events[:], -1)
		if err != nil && err != unix.EINTR {
			panic(fmt.Sprintf("BUG: reactor: epoll_wait: %v", err))
		}
		for i := range max(n, 0) {
			id := uint64(uint32(events[i].Fd)) | uint64(uint32(events[i].Pad))<<32
			if id == 0 {
				return
			}
			if m := d.table.Get(id); m != nil {
				m.(*conn).writable()
			}
		}
	}
}

// close ends the goroutine; no connection is left.
func (d *drainer) close() {
	d.start.Do(func() {})
	if d.done != nil {
		_, _ = unix.Write(d.evfd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		<-d.done
	}
	_, _ = unix.Close(d.evfd), unix.Close(d.epfd)
}
