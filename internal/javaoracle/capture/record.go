package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// Frame is one line of a recording.
type Frame struct {
	UnixMillis int64  `json:"t"`
	Label      string `json:"label"`           // the client, from the label file
	Route      string `json:"route"`           // name of the route: namesrv, broker, vip …
	Conn       int    `json:"conn"`            // number of the connection within the recording
	FromServer bool   `json:"server"`          // true: sent by the side the proxy dialled
	Size       int    `json:"size"`            // bytes with the length field
	Bytes      []byte `json:"bytes,omitempty"` // nil when larger than maxKeptFrame
}

const (
	// maxKeptFrame bounds what is written for one frame; a larger one is recorded by its size alone.
	maxKeptFrame = 64 << 10
	// maxWireFrame is the largest frame of the protocol; more means that the stream is not this protocol.
	maxWireFrame = 16 << 20
)

// recorder is the proxy: it owns the output file and numbers the connections.
type recorder struct {
	labelFile string
	running   sync.WaitGroup // accept loops and connections

	mu    sync.Mutex // guards out, conns
	out   *bufio.Writer
	conns int
}

// recordTraffic runs the proxy until ctx ends.
func recordTraffic(ctx context.Context, out, labelFile string, routes []route) error {
	f, err := os.OpenFile(out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	r := &recorder{labelFile: labelFile, out: bufio.NewWriterSize(f, 1<<20)}
	var listeners []net.Listener
	for _, rt := range routes {
		l, err := net.Listen("tcp", rt.listen)
		if err != nil {
			return fmt.Errorf("route %s: %w", rt.name, err)
		}
		listeners = append(listeners, l)
		r.running.Go(func() { r.accept(ctx, l, rt) })
	}
	fmt.Println("recording to", out)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := r.flush(); err != nil {
				return err
			}
		case <-ctx.Done():
			for _, l := range listeners {
				l.Close()
			}
			r.running.Wait()
			return r.flush()
		}
	}
}

func (r *recorder) flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Flush()
}

func (r *recorder) accept(ctx context.Context, l net.Listener, rt route) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		r.running.Go(func() { r.serve(ctx, client, rt) })
	}
}

// serve joins one accepted connection with the target, until either side or ctx ends.
func (r *recorder) serve(ctx context.Context, client net.Conn, rt route) {
	defer client.Close()
	server, err := net.Dial("tcp", rt.target)
	if err != nil {
		fmt.Fprintln(os.Stderr, "capture: route", rt.name, err)
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() {
		client.Close()
		server.Close()
	})()
	r.mu.Lock()
	r.conns++
	base := Frame{Label: r.label(), Route: rt.name, Conn: r.conns}
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Add(2)
	pump := func(from, to net.Conn, fromServer bool) {
		defer both.Done()
		line := base
		line.FromServer = fromServer
		r.pump(from, to, line)
		from.Close()
		to.Close()
	}
	go pump(client, server, false)
	go pump(server, client, true)
	both.Wait()
}

// label reads the name of the client that is running now.
func (r *recorder) label() string {
	if r.labelFile == "" {
		return "unknown"
	}
	text, err := os.ReadFile(r.labelFile)
	first, _, _ := strings.Cut(string(text), "\n")
	if err != nil || first == "" {
		return "unknown"
	}
	return strings.TrimSpace(first)
}

// pump copies one direction and records the frames in it. What is not a frame is copied but no longer
// recorded.
func (r *recorder) pump(from, to net.Conn, line Frame) {
	var pending []byte
	framed := true
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if framed { // before it is passed on: who has an answer finds it in the recording
				pending = append(pending, buf[:n]...)
				pending, framed = r.cut(pending, line)
			}
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut writes the whole frames at the start of pending and returns the rest; false when the stream is
// something else.
func (r *recorder) cut(pending []byte, line Frame) ([]byte, bool) {
	for len(pending) >= 4 {
		size := int64(binary.BigEndian.Uint32(pending)) + 4
		if size < 8 || size > maxWireFrame {
			return nil, false
		}
		if int64(len(pending)) < size {
			break
		}
		line.UnixMillis = time.Now().UnixMilli()
		line.Size = int(size)
		line.Bytes = nil
		if size <= maxKeptFrame {
			line.Bytes = pending[:size]
		}
		r.write(line)
		pending = pending[size:]
	}
	return pending, true
}

func (r *recorder) write(line Frame) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err) // BUG: Frame holds nothing that cannot be marshalled
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.Write(text)
	r.out.WriteByte('\n') // a failed write is sticky and comes back from flush
}
