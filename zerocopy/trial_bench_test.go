//go:build linux

package zerocopy

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The trials behind docs/performance.md "Zero-copy rule": one answer (a header of 200 bytes and ranges of a file in the
// page cache) goes over a loopback TCP connection in every way Linux offers. ns/answer is the CPU time of the sending
// thread, which on loopback includes the receiving softirq; total-ns/answer adds the reader's. Wall time means little:
// the reader may be the slower side.
//
//	go test ./zerocopy -run '^$' -bench Trial -benchtime 200x

const trialFileBytes = 64 << 20

// trial is one connection, with a goroutine that reads it empty.
type trial struct {
	fd     int
	file   *os.File
	mem    []byte
	header []byte
	heap   []byte
	pipe   [2]int
	vec    Vec
	zc     uint32 // MSG_ZEROCOPY calls whose completion is due
}

func newTrial(b *testing.B) *trial {
	tr := &trial{header: make([]byte, 200), heap: make([]byte, 0, 5<<20)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	client, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(b, err)
	server, err := ln.Accept()
	require.NoError(b, err)
	f, err := server.(*net.TCPConn).File() // a blocking descriptor: the trial waits in its system call
	require.NoError(b, err)
	tr.fd = int(f.Fd())
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 256<<10)
		for {
			if _, err := client.Read(buf); err != nil {
				return
			}
		}
	}()
	dir := b.TempDir()
	if d := os.Getenv("TRIAL_DIR"); d != "" {
		dir = d
	}
	tr.file, err = os.Create(filepath.Join(dir, "log"))
	require.NoError(b, err)
	// As the store writes its log: space allocated, pages touched through the mapping. That leaves pages of 4 KiB; a file
	// written with large writes gets larger folios, of which sendfile takes many fewer.
	require.NoError(b, unix.Fallocate(int(tr.file.Fd()), 0, 0, trialFileBytes))
	tr.mem, err = unix.Mmap(int(tr.file.Fd()), 0, trialFileBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(b, err)
	for i := 0; i < trialFileBytes; i += 8 {
		tr.mem[i] = byte(i)
	}
	require.NoError(b, unix.Pipe(tr.pipe[:]))
	_, _ = unix.FcntlInt(uintptr(tr.pipe[1]), unix.F_SETPIPE_SZ, 1<<20)
	b.Cleanup(func() {
		_, _, _ = f.Close(), server.Close(), ln.Close()
		<-done
		_, _ = client.Close(), tr.file.Close()
		_ = os.Remove(tr.file.Name())
		require.NoError(b, unix.Munmap(tr.mem))
		_, _ = unix.Close(tr.pipe[0]), unix.Close(tr.pipe[1])
	})
	return tr
}

// ranges calls f for the n ranges of an answer of size bytes; the log is walked so that every answer is elsewhere.
func (tr *trial) ranges(answer, size, n int, f func(off int64, n int)) {
	each := size / n
	at := (answer * (size + 8192)) % (trialFileBytes - 2*size - n*64)
	for range n {
		f(int64(at), each)
		at += each
		if n > 1 {
			at += 64 // a gap: somebody else's record
		}
	}
}

type trialWay struct {
	name string
	send func(b *testing.B, tr *trial, answer, size, n int)
}

func writeAll(b *testing.B, fd int, p []byte, flags int) {
	for len(p) > 0 {
		n, err := unix.SendmsgN(fd, p, nil, nil, flags)
		require.NoError(b, err)
		p = p[n:]
	}
}

var trialWays = []trialWay{
	{"heap", func(b *testing.B, tr *trial, answer, size, n int) {
		buf := append(tr.heap[:0], tr.header...)
		tr.ranges(answer, size, n, func(off int64, n int) { buf = append(buf, tr.mem[off:off+int64(n)]...) })
		writeAll(b, tr.fd, buf, 0)
	}},
	{"writev", func(b *testing.B, tr *trial, answer, size, n int) {
		tr.vec.Add(tr.header)
		tr.ranges(answer, size, n, func(off int64, n int) { tr.vec.Add(tr.mem[off : off+int64(n)]) })
		k, err := tr.vec.Writev(tr.fd)
		require.NoError(b, err)
		require.Equal(b, tr.vec.Size(), k)
		tr.vec.Reset()
	}},
	{"sendfile", func(b *testing.B, tr *trial, answer, size, n int) {
		writeAll(b, tr.fd, tr.header, unix.MSG_MORE)
		tr.ranges(answer, size, n, func(off int64, n int) {
			for n > 0 {
				k, err := unix.Sendfile(tr.fd, int(tr.file.Fd()), &off, n)
				require.NoError(b, err)
				n -= k
			}
		})
	}},
	{"splice", func(b *testing.B, tr *trial, answer, size, n int) {
		writeAll(b, tr.fd, tr.header, unix.MSG_MORE)
		tr.ranges(answer, size, n, func(off int64, n int) {
			for n > 0 {
				k, err := unix.Splice(int(tr.file.Fd()), &off, tr.pipe[1], nil, n, 0)
				require.NoError(b, err)
				for left := int(k); left > 0; {
					m, err := unix.Splice(tr.pipe[0], nil, tr.fd, nil, left, 0)
					require.NoError(b, err)
					left -= int(m)
				}
				n -= int(k)
			}
		})
	}},
	{"zerocopy", func(b *testing.B, tr *trial, answer, size, n int) {
		if answer == 0 {
			require.NoError(b, unix.SetsockoptInt(tr.fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1))
		}
		bufs := [][]byte{tr.header}
		tr.ranges(answer, size, n, func(off int64, n int) { bufs = append(bufs, tr.mem[off:off+int64(n)]) })
		for left := size + len(tr.header); left > 0; {
			k, err := unix.SendmsgBuffers(tr.fd, bufs, nil, nil, unix.MSG_ZEROCOPY)
			require.NoError(b, err)
			tr.zc++
			for left -= k; k > 0; {
				m := min(k, len(bufs[0]))
				k -= m
				if bufs[0] = bufs[0][m:]; len(bufs[0]) == 0 {
					bufs = bufs[1:]
				}
			}
		}
		tr.reap(b)
	}},
}

// reap takes completions from the error queue, as a server would have to before it drops a reference.
func (tr *trial) reap(b *testing.B) {
	var oob [128]byte
	for tr.zc > 0 {
		_, n, _, _, err := unix.Recvmsg(tr.fd, nil, oob[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err == unix.EAGAIN {
			return
		}
		require.NoError(b, err)
		msgs, err := unix.ParseSocketControlMessage(oob[:n])
		require.NoError(b, err)
		for _, m := range msgs {
			e := (*unix.SockExtendedErr)(unsafe.Pointer(&m.Data[0]))
			tr.zc -= e.Data - e.Info + 1
		}
	}
}

func threadCPU(who int) int64 {
	var ru syscall.Rusage
	_ = syscall.Getrusage(who, &ru)
	return ru.Utime.Nano() + ru.Stime.Nano()
}

func BenchmarkTrial(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		for _, size := range []int{1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20} {
			if size/n < 1<<10 {
				continue
			}
			for _, way := range trialWays {
				b.Run(fmt.Sprintf("ranges=%d/size=%dKiB/%s", n, size>>10, way.name), func(b *testing.B) {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					tr := newTrial(b)
					way.send(b, tr, 0, size, n)
					answers := max(1, min(4000, (64<<20)/size)) // one op is that many
					b.ResetTimer()
					own, all := threadCPU(unix.RUSAGE_THREAD), threadCPU(unix.RUSAGE_SELF)
					for i := range b.N {
						for a := range answers {
							way.send(b, tr, 1+i*answers+a, size, n)
						}
					}
					own, all = threadCPU(unix.RUSAGE_THREAD)-own, threadCPU(unix.RUSAGE_SELF)-all
					total := float64(b.N * answers)
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(float64(own)/total, "ns/answer")
					b.ReportMetric(float64(all)/total, "total-ns/answer")
					b.ReportMetric(float64(own)/total/float64(size), "ns/byte")
				})
			}
		}
	}
}
