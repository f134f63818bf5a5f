package ha

import (
	"io"
	"net"
	"syscall"
)

// socketReader reads from a connection and says when it is about to wait for more. A slave reports then: what came in one
// batch is confirmed in one report, whatever the number of reads, and no later than by a report after each read, because the
// read that finds nothing is made anyway.
type socketReader struct {
	conn net.Conn
	raw  syscall.RawConn // nil for connections without a descriptor: empty is not called
	// empty is called once before a read waits; an error ends it.
	empty func() error

	buf   []byte
	n     int
	err   error
	asked bool
	try   func(fd uintptr) bool // bound once: a read allocates nothing
}

func newSocketReader(conn net.Conn, empty func() error) *socketReader {
	r := &socketReader{conn: conn, empty: empty}
	if sc, ok := conn.(syscall.Conn); ok && rawReads {
		if raw, err := sc.SyscallConn(); err == nil {
			r.raw = raw
		}
	}
	r.try = r.tryRead
	return r
}

// drains tells that empty is called.
func (r *socketReader) drains() bool { return r.raw != nil }

// read is as that of net.Conn.
func (r *socketReader) read(buf []byte) (n int, err error) {
	if r.raw == nil {
		return r.conn.Read(buf)
	}
	r.buf, r.n, r.err, r.asked = buf, 0, nil, false
	err = r.raw.Read(r.try)
	r.buf = nil
	if r.err != nil {
		err = r.err
	}
	return r.n, err
}

// tryRead is one attempt; false: wait until there is something.
func (r *socketReader) tryRead(fd uintptr) bool {
	var again bool
	r.n, again, r.err = readSocket(fd, r.buf)
	switch {
	case again && r.asked:
		return false
	case again:
		r.asked = true
		r.err = r.empty()
		return r.err != nil
	case r.n == 0 && r.err == nil:
		r.err = io.EOF
	}
	return true
}
