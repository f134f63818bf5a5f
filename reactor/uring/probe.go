//go:build iouring && linux

package uring

import (
	"fmt"
	"runtime"
	"time"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// probeTimeout bounds the wait for the completions of a probe.
const probeTimeout = 2 * time.Second

// Probe sets up a ring as a loop does and receives and sends through it. The error tells what is missing: Linux
// 6.1 has all, and a container may forbid io_uring (EPERM or ENOSYS by seccomp, ENOMEM by its memlock limit).
func Probe() error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		result <- probe()
	}()
	return <-result
}

func probe() (err error) {
	var r ring
	if err := r.open(receiveBuffers << 10); err != nil {
		return err
	}
	defer r.close()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("reactor: socketpair: %w", err)
	}
	defer func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) }()
	ops, mem, err := newSendOps()
	if err != nil {
		return err
	}
	defer mem.free()
	word, err := newArena(8)
	if err != nil {
		return err
	}
	defer word.free()

	e := r.entry()
	e.PrepareRecvMultishot(fds[0], 0, 0, 0)
	e.Flags |= giouring.SqeBufferSelect
	e.BufIG = bufferGroup
	e.UserData = tag(kindReceive, 0)
	ops[0].Add(word.b, nil)
	ops[0].prepare(r.entry(), fds[1], unix.MSG_NOSIGNAL)
	if err := r.expect("receive", kindReceive, 8, giouring.CQEFMore|giouring.CQEFBuffer); err != nil {
		return err
	}
	e = r.entry()
	e.PrepareCancelFd(fds[0], giouring.AsyncCancelAll)
	e.UserData = tag(kindCancel, 0)
	return r.expect("cancel", kindCancel, 1, 0)
}

// expect waits for the completion of a kind.
func (r *ring) expect(what string, k kind, res int32, flags uint32) error {
	for deadline := time.Now().Add(probeTimeout); time.Now().Before(deadline); {
		if _, err := r.SubmitAndWait(1); err != nil && !transient(err) {
			return fmt.Errorf("reactor: io_uring_enter: %w", err)
		}
		for r.CQReady() > 0 {
			cqe, err := r.PeekCQE()
			if err != nil {
				return fmt.Errorf("reactor: io_uring completion: %w", err)
			}
			got := *cqe
			r.CQESeen(cqe)
			switch {
			case kind(got.UserData>>kindShift) != k:
				if got.Res < 0 && got.Res != -int32(unix.ECANCELED) {
					return fmt.Errorf("reactor: io_uring send: %w", unix.Errno(-got.Res))
				}
			case got.Res < 0:
				return fmt.Errorf("reactor: io_uring %s: %w", what, unix.Errno(-got.Res))
			case got.Res != res || got.Flags&flags != flags:
				return fmt.Errorf("reactor: io_uring %s: result %d, flags %#x", what, got.Res, got.Flags)
			default:
				return nil
			}
		}
	}
	return fmt.Errorf("reactor: io_uring %s: %w", what, unix.ETIMEDOUT)
}
