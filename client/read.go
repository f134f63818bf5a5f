package client

import (
	"fmt"
	"maps"
	"slices"

	"skylark/codec"
)

// read splits what comes into frames and hands them out until the connection ends.
func (c *Conn) read() {
	buf := make([]byte, 0, readBytes)
	var cmd codec.Command
	for {
		used, need, err := c.deliverAll(buf, &cmd)
		if err == nil {
			buf = makeRoom(buf, used, need)
			var n int
			n, err = c.nc.Read(buf[len(buf):cap(buf)])
			buf = buf[:len(buf)+n]
			if n > 0 {
				c.heard.Add(1)
			}
		}
		if err != nil {
			c.close(fmt.Errorf("%w: read from %v: %w", ErrClosed, c.nc.RemoteAddr(), err))
			return
		}
	}
}

// deliverAll hands out the complete frames of buf; need is what the next one takes, as far as known.
func (c *Conn) deliverAll(buf []byte, cmd *codec.Command) (used, need int, err error) {
	for {
		f, n, need, err := codec.SplitFrame(buf[used:], c.o.MaxFrameBytes)
		if err != nil || n == 0 {
			return used, need, err
		}
		used += n
		if err := cmd.Decode(f); err != nil {
			return used, 0, err
		}
		c.deliver(cmd)
	}
}

// makeRoom moves what is left of buf to its front and has it hold need bytes, growing with what has come
// rather than with what a length field claims. An empty buffer that has grown large is exchanged for a small
// one.
func makeRoom(buf []byte, used, need int) []byte {
	rest := buf[used:]
	if len(rest) == 0 {
		if cap(buf) > maxKeptBytes {
			return make([]byte, 0, readBytes)
		}
		return buf[:0]
	}
	if want := min(need, 2*len(rest)+readBytes); want > cap(buf) {
		return append(make([]byte, 0, want), rest...)
	}
	return buf[:copy(buf[:cap(buf)], rest)]
}

func (c *Conn) deliver(cmd *codec.Command) {
	if !cmd.IsResponse() {
		c.serve(cmd)
		return
	}
	c.mu.Lock()
	done := c.pending[cmd.Opaque]
	delete(c.pending, cmd.Opaque)
	c.mu.Unlock()
	if done != nil {
		done(cmd.Clone(), nil)
	}
}

// serve runs the handler of a request of the peer.
func (c *Conn) serve(cmd *codec.Command) {
	if c.o.Handler == nil {
		return
	}
	req := cmd.Clone()
	if int(c.handlers.Add(1)) > c.o.MaxHandlers {
		c.handlers.Add(-1)
		c.o.Log.Warn("client: request of the server refused: too many under way", "code", req.Code,
			"remote", c.nc.RemoteAddr())
		go c.reply(req, codec.NewResponse(req, codec.RespSystemBusy, "too many requests to this client"))
		return
	}
	go func() {
		defer c.handlers.Add(-1)
		c.reply(req, c.o.Handler(c, req))
	}()
}

func (c *Conn) reply(req, answer *codec.Command) {
	if answer == nil || req.IsOneway() {
		return
	}
	answer.Opaque, answer.Flag, answer.Type = req.Opaque, codec.FlagResponse, req.Type
	_ = c.Send(answer) // a closed connection needs no answer
}

// Close ends the connection; calls that wait fail with ErrClosed.
func (c *Conn) Close() error {
	c.close(ErrClosed)
	return nil
}

// close is false if it was closed already.
func (c *Conn) close(why error) bool {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return false
	}
	c.err = why
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	close(c.closed)
	_ = c.nc.Close() // wakes reader and writer; there is nobody left to tell
	for _, opaque := range slices.Sorted(maps.Keys(pending)) {
		pending[opaque](nil, why)
	}
	return true
}
