//go:build iouring && linux

package uring

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The trials behind docs/performance.md "Zero-copy rule" that need a ring: one answer (a header of 200 bytes and ranges of
// a mapped file) over loopback TCP by writev, by SENDMSG and by SENDMSG_ZC. ns/answer is the CPU of the sending thread,
// total-ns/answer that of the process with the reader.
//
//	go test -tags iouring -ldflags=-checklinkname=0 ./reactor/uring -run '^$' -bench Trial -benchtime 20x

const trialBytes = 64 << 20

// trial is one connection that a goroutine reads empty, a mapped file and a ring.
type trial struct {
	fd   int
	mem  []byte
	head []byte
	iovs []unix.Iovec
	msg  *syscall.Msghdr
	ring *giouring.Ring
}

func newTrial(b *testing.B) *trial {
	tr := &trial{head: make([]byte, 200), iovs: make([]unix.Iovec, 0, 128), msg: &syscall.Msghdr{}}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // what it accepts knows no SENDMSG_ZC
	ln, err := lc.Listen(b.Context(), "tcp", "127.0.0.1:0")
	require.NoError(b, err)
	client, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(b, err)
	server, err := ln.Accept()
	require.NoError(b, err)
	f, err := server.(*net.TCPConn).File() // blocking: the trial waits in its system call
	require.NoError(b, err)
	tr.fd = int(f.Fd())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{client}, make([]byte, 256<<10))
	}()
	log, err := os.Create(filepath.Join(b.TempDir(), "log"))
	require.NoError(b, err)
	require.NoError(b, unix.Fallocate(int(log.Fd()), 0, 0, trialBytes))
	tr.mem, err = unix.Mmap(int(log.Fd()), 0, trialBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(b, err)
	for i := 0; i < trialBytes; i += 8 {
		tr.mem[i] = byte(i)
	}
	tr.ring = giouring.NewRing()
	require.NoError(b, tr.ring.QueueInit(64, giouring.SetupSingleIssuer|giouring.SetupDeferTaskrun))
	b.Cleanup(func() {
		tr.ring.QueueExit()
		_, _, _ = f.Close(), server.Close(), ln.Close()
		<-done
		_, _ = client.Close(), log.Close()
		require.NoError(b, unix.Munmap(tr.mem))
	})
	return tr
}

// compose makes the message of an answer: size bytes in n ranges, elsewhere in the file for every answer.
func (tr *trial) compose(answer, size, n int) {
	tr.iovs = append(tr.iovs[:0], unix.Iovec{Base: &tr.head[0], Len: uint64(len(tr.head))})
	at := (answer * (size + 8192)) % (trialBytes - 2*size - n*64)
	for range n {
		tr.iovs = append(tr.iovs, unix.Iovec{Base: &tr.mem[at], Len: uint64(size / n)})
		at += size/n + 64
	}
	tr.msg.Iov = (*syscall.Iovec)(unsafe.Pointer(&tr.iovs[0]))
	tr.msg.Iovlen = uint64(len(tr.iovs))
}

// submit sends the message through the ring and waits for all completions of it: SENDMSG_ZC has a second one, when the
// pages are free again.
func (tr *trial) submit(b *testing.B, prepare func(*giouring.SubmissionQueueEntry), total int) {
	prepare(tr.ring.GetSQE())
	for due := 1; due > 0; {
		_, err := tr.ring.SubmitAndWait(1)
		require.NoError(b, err)
		for {
			cqe, err := tr.ring.PeekCQE()
			if err != nil {
				break
			}
			due--
			if cqe.Flags&giouring.CQEFNotif == 0 {
				require.Equal(b, int32(total), cqe.Res)
			}
			if cqe.Flags&giouring.CQEFMore != 0 {
				due++
			}
			tr.ring.CQESeen(cqe)
		}
	}
}

var trialWays = []struct {
	name string
	send func(b *testing.B, tr *trial, total int)
}{
	{"writev", func(b *testing.B, tr *trial, total int) {
		k, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(tr.fd), uintptr(unsafe.Pointer(tr.msg)), 0)
		require.Zero(b, errno)
		require.Equal(b, total, int(k))
	}},
	{"sendmsg-ring", func(b *testing.B, tr *trial, total int) {
		tr.submit(b, func(e *giouring.SubmissionQueueEntry) { e.PrepareSendMsg(tr.fd, tr.msg, unix.MSG_WAITALL) }, total)
	}},
	{"sendmsg-zc", func(b *testing.B, tr *trial, total int) {
		tr.submit(b, func(e *giouring.SubmissionQueueEntry) { e.PrepareSendmsgZC(tr.fd, tr.msg, unix.MSG_WAITALL) }, total)
	}},
}

func cpuOf(who int) int64 {
	var ru syscall.Rusage
	_ = syscall.Getrusage(who, &ru)
	return ru.Utime.Nano() + ru.Stime.Nano()
}

func BenchmarkTrial(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		for _, size := range []int{4 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20} {
			if size/n < 1<<10 {
				continue
			}
			for _, way := range trialWays {
				b.Run(fmt.Sprintf("ranges=%d/size=%dKiB/%s", n, size>>10, way.name), func(b *testing.B) {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					tr := newTrial(b)
					answers := max(1, min(2000, trialBytes/size)) // one op is that many
					b.ResetTimer()
					own, all := cpuOf(unix.RUSAGE_THREAD), cpuOf(unix.RUSAGE_SELF)
					for i := range b.N * answers {
						tr.compose(i, size, n)
						way.send(b, tr, size+len(tr.head))
					}
					own, all = cpuOf(unix.RUSAGE_THREAD)-own, cpuOf(unix.RUSAGE_SELF)-all
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(float64(own)/float64(b.N*answers), "ns/answer")
					b.ReportMetric(float64(all)/float64(b.N*answers), "total-ns/answer")
				})
			}
		}
	}
}
