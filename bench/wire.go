package bench

import (
	"net"
	"sync"
)

// Limits of a connection's writing half.
const (
	// directBytes is what is written by whoever has it as long as no more is unanswered: the socket buffers
	// take it. Beyond that a goroutine writes, so that a broker that does not read delays neither the clock
	// nor other connections.
	directBytes = 64 << 10
	// keptBytes is the largest buffer that is kept for the next write.
	keptBytes = 1 << 20
)

// wire is the writing half of a connection. Its lock is that of its owner; buf is appended to with the lock
// held.
type wire struct {
	nc      net.Conn
	mu      *sync.Mutex
	wg      *sync.WaitGroup // of writing goroutines
	buf     []byte
	spare   []byte
	writing bool
}

// busy tells that something is not written yet.
func (w *wire) busy() bool { return w.writing || len(w.buf) > 0 }

// flush writes buf: at once if direct is set and nobody is writing, else by a goroutine. It is called, and
// returns, with the lock held, which it lets go of meanwhile. A failed write closes the connection: its
// reader ends.
func (w *wire) flush(direct bool) {
	if w.writing || len(w.buf) == 0 {
		return
	}
	w.writing = true
	if direct {
		w.writeAll()
		return
	}
	w.wg.Go(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.writeAll()
	})
}

// writeAll writes until nothing is left, what others append meanwhile too.
func (w *wire) writeAll() {
	for len(w.buf) > 0 {
		buf := w.buf
		w.buf = w.spare[:0]
		w.mu.Unlock()
		_, err := w.nc.Write(buf)
		w.mu.Lock()
		if w.spare = buf; cap(buf) > keptBytes {
			w.spare = nil
		}
		if err != nil {
			w.buf = nil
			_ = w.nc.Close() // the reader reports it
		}
	}
	w.writing = false
}
