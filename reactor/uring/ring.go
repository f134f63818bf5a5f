//go:build iouring && linux

package uring

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"

	"skylark/reactor"
	"skylark/zerocopy"
)

// Sizes of a loop's ring.
const (
	// ringEntries is the submission queue; the completion queue is twice of it, and the kernel keeps what is
	// beyond.
	ringEntries = 1024
	// maxBatch is how many completions one turn serves before the next submission.
	maxBatch = 256
	// receiveBuffers are provided to the kernel, each receiveShare of Options.ReadBufferBytes.
	receiveBuffers = 16
	receiveShare   = 4
	bufferGroup    = 1
	// sendOps is how many sends a loop has in the ring at once, sendVecs the iovecs of each.
	sendOps  = 64
	sendVecs = 128
	// maxRegistered is how many rings a thread can register (IO_RINGFD_REG_MAX).
	maxRegistered = 16
)

// kind is the top byte of a request's user data; the rest is a slot or the number of a send.
type kind uint8

const (
	kindWake kind = iota + 1
	kindReceive
	kindCancel
	kindSend
	kindShift = 56
)

func tag(k kind, n uint32) uint64 { return uint64(k)<<kindShift | uint64(n) }

// arena is memory outside of Go's heap that the kernel holds addresses of.
type arena struct{ b []byte }

func newArena(size int) (arena, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return arena{}, fmt.Errorf("reactor: mmap of %d bytes: %w", size, err)
	}
	return arena{b: b}, nil
}

func (a *arena) free() {
	if a.b != nil {
		_ = unix.Munmap(a.b)
		a.b = nil
	}
}

func (a *arena) address() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(a.b))) }

// ring is a giouring.Ring with its receive buffers. All methods are called on the thread that opened it.
type ring struct {
	*giouring.Ring
	bufs    arena // receiveBuffers of size bytes
	entries arena // the ring of buffers, shared with the kernel
	br      *giouring.BufAndRing
	size    int
	given   int // buffers put back since the last publish
}

func (r *ring) open(readBufferBytes int) (err error) {
	r.Ring = giouring.NewRing()
	const flags = giouring.SetupSingleIssuer | giouring.SetupDeferTaskrun | giouring.SetupClamp
	if err := r.QueueInit(ringEntries, flags); err != nil {
		return fmt.Errorf("reactor: io_uring_setup: %w", err)
	}
	if err := r.provide(readBufferBytes); err != nil {
		r.close()
		return err
	}
	_, _ = r.RegisterRingFd() // saves a look-up of the descriptor in every call; not vital
	return nil
}

// provide gives the kernel its receive buffers.
func (r *ring) provide(readBufferBytes int) (err error) {
	r.size = max(readBufferBytes/receiveShare, 1<<10)
	if r.bufs, err = newArena(receiveBuffers * r.size); err != nil {
		return err
	}
	if r.entries, err = newArena(receiveBuffers * int(unsafe.Sizeof(giouring.BufAndRing{}))); err != nil {
		return err
	}
	reg := giouring.BufReg{RingAddr: uint64(r.entries.address()), RingEntries: receiveBuffers, Bgid: bufferGroup}
	if _, err := r.RegisterBufferRing(&reg, 0); err != nil {
		return fmt.Errorf("reactor: io_uring buffer ring: %w", err)
	}
	r.br = (*giouring.BufAndRing)(unsafe.Pointer(unsafe.SliceData(r.entries.b)))
	r.br.BufRingInit()
	for i := range receiveBuffers {
		r.giveBack(uint16(i))
	}
	r.publish()
	return nil
}

// buffer is the first n bytes of a buffer.
func (r *ring) buffer(bid uint16, n int) []byte {
	at := int(bid) * r.size
	return r.bufs.b[at : at+n : at+n]
}

// giveBack returns a buffer; the kernel sees it after publish.
func (r *ring) giveBack(bid uint16) {
	addr := r.bufs.address() + uintptr(int(bid)*r.size)
	r.br.BufRingAdd(addr, uint32(r.size), bid, receiveBuffers-1, r.given)
	r.given++
}

func (r *ring) publish() {
	if r.given > 0 {
		r.br.BufRingAdvance(r.given)
		r.given = 0
	}
}

// entry is a cleared submission entry. giouring leaves fields it does not use as the last request set them.
func (r *ring) entry() *giouring.SubmissionQueueEntry {
	e := r.GetSQE()
	for e == nil {
		if _, err := r.Submit(); err != nil && !transient(err) {
			panic(fmt.Sprintf("FATAL: reactor: io_uring_enter: %v", err))
		}
		e = r.GetSQE()
	}
	*e = giouring.SubmissionQueueEntry{}
	return e
}

// transient errors of io_uring_enter go away when completions are taken, or at once.
func transient(err error) bool {
	return err == unix.EINTR || err == unix.EAGAIN || err == unix.EBUSY
}

func (r *ring) close() {
	if r.Ring != nil {
		r.unregister()
		r.QueueExit()
		r.Ring = nil
	}
	r.entries.free()
	r.bufs.free()
}

// unregister undoes RegisterRingFd, which giouring fails to do: a registered ring outlives its descriptor.
func (r *ring) unregister() {
	var all [maxRegistered]giouring.RsrcUpdate
	for i := range all {
		all[i].Offset = uint32(i) // there is no other ring on this thread
	}
	_, _ = r.Register(r.RingFd(), giouring.UnregisterRingFDs, unsafe.Pointer(&all[0]), maxRegistered)
}

// sendOp is a send in the ring. hdr and iov lie outside of Go's heap. What is sent is kept alive by the
// connection's queue or the outbox until the completion.
type sendOp struct {
	n      uint32
	c      *conn
	box    *reactor.Outbox // what is sent; nil: the front of the connection's queue
	hdr    *unix.Msghdr
	iov    []unix.Iovec
	used   int
	size   int
	mapped bool // there are ranges of files among it
}

// Add implements reactor.Filler.
func (op *sendOp) Add(b []byte, owner zerocopy.Owner) bool {
	if len(b) == 0 {
		return true
	}
	if op.used == len(op.iov) {
		return false
	}
	v := &op.iov[op.used]
	v.Base = unsafe.SliceData(b)
	v.SetLen(len(b))
	op.used++
	op.size += len(b)
	op.mapped = op.mapped || owner != nil
	return true
}

// Size implements reactor.Filler.
func (op *sendOp) Size() int { return op.size }

func (op *sendOp) reset() {
	clear(op.iov[:op.used])
	op.c, op.box, op.used, op.size, op.mapped = nil, nil, 0, 0, false
}

// prepare makes e the send of what was added.
func (op *sendOp) prepare(e *giouring.SubmissionQueueEntry, fd int, flags uint32) {
	*op.hdr = unix.Msghdr{Iov: &op.iov[0]}
	op.hdr.SetIovlen(op.used)
	e.PrepareSendMsg(fd, (*syscall.Msghdr)(unsafe.Pointer(op.hdr)), flags)
	e.UserData = tag(kindSend, op.n)
}

// newSendOps cuts the headers and vectors of all sends out of an arena.
func newSendOps() (ops []*sendOp, mem arena, err error) {
	const each = int(unsafe.Sizeof(unix.Msghdr{})) + sendVecs*int(unsafe.Sizeof(unix.Iovec{}))
	if mem, err = newArena(sendOps * each); err != nil {
		return nil, mem, err
	}
	for i := range sendOps {
		b := mem.b[i*each:]
		op := &sendOp{n: uint32(i), hdr: (*unix.Msghdr)(unsafe.Pointer(&b[0]))}
		first := (*unix.Iovec)(unsafe.Pointer(&b[unsafe.Sizeof(unix.Msghdr{})]))
		op.iov = unsafe.Slice(first, sendVecs)
		ops = append(ops, op)
	}
	return ops, mem, nil
}
