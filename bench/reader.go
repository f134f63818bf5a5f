package bench

import (
	"context"
	"errors"
	"net"
	"time"

	"skylark/codec"
)

// reader splits what a connection brings into frames.
type reader struct {
	nc   net.Conn
	buf  []byte
	used int // of buf
	need int // of the next frame, as far as known
	cmd  codec.Command
}

// fill reads once, with room for the frame that has begun.
func (r *reader) fill() error {
	rest := r.buf[r.used:]
	if r.used > 0 || r.need > cap(r.buf) {
		buf := r.buf
		if r.need > cap(buf) {
			buf = make([]byte, 0, max(r.need, 2*cap(buf)))
		}
		r.buf, r.used = buf[:copy(buf[:cap(buf)], rest)], 0
	}
	n, err := r.nc.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	if n > 0 {
		return nil // an error comes again
	}
	if err == nil {
		err = errors.New("bench: empty read")
	}
	return err
}

// each calls f with every complete frame.
func (r *reader) each(f func(codec.Frame) error) error {
	for {
		frame, n, need, err := codec.SplitFrame(r.buf[r.used:], codec.MaxFrameBytes)
		if err != nil {
			return err
		}
		if n == 0 {
			r.need = need
			return nil
		}
		r.used += n
		if err := f(frame); err != nil {
			return err
		}
	}
}

// wait is false if ctx ended before d was over.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
