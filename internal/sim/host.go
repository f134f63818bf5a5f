package sim

import (
	"context"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"skylark/internal/clock"
	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
)

// Process is what runs on a host. Its methods are called by the world, one at a time; between two calls it does nothing.
type Process interface {
	// Start is called once. An error that is not the disk's fault fails the run.
	Start(h *Host) error
	// Work is called after everything else that was called, so that what was left to do is done.
	Work()
	// Accept is told of a connection that somebody has made.
	Accept(c *Conn)
	// Kill is the end of the process: it may free what the simulation holds, but sends nothing any more.
	Kill()
}

// Host is a machine: a process, a disk and clocks.
type Host struct {
	w     *World
	ID    int // in World.Hosts
	Name  string
	New   func() Process // for each start
	FS    *vfs.MemFS     // what is on the disk, and what the operating system has not written yet
	proc  Process        // nil: it does not run
	life  int            // counts starts
	conns []*Conn        // that are open here

	frozenUntil time.Duration // the process is stopped, the machine is not
	off         bool          // the machine has no power
	rate        float64       // of its clocks
	wall        time.Duration // what the wall clock is ahead of the other one

	dieIn int        // changes of files until the power goes; 0: it stays
	image *vfs.MemFS // the power went in the middle of a file operation: what is left
	log   *slog.Logger
}

// AddHost adds a machine whose process runs from Start on.
func (w *World) AddHost(name string, create func() Process) *Host {
	h := &Host{w: w, ID: len(w.Hosts), Name: name, New: create, FS: vfs.NewMem(), rate: 1}
	h.log = slog.New(&traceHandler{h: h})
	w.Hosts = append(w.Hosts, h)
	return h
}

// Disk is the file system as a process sees it. The power may go in any operation that changes something.
func (h *Host) Disk() vfs.FS {
	life := h.life
	return errorfs.Wrap(h.FS, errorfs.Func(func(op errorfs.Op) error {
		if h.life != life {
			return syscall.EIO // a process that is dead does nothing to the disk
		}
		if h.image != nil {
			return syscall.EIO
		}
		if op.Kind&errorfs.OpChange == 0 || h.dieIn == 0 {
			return nil
		}
		if h.dieIn--; h.dieIn > 0 {
			return nil
		}
		h.image = h.FS.CrashClone(h.w.Rand.Uint64())
		return syscall.EIO
	}))
}

// Up tells whether the process runs.
func (h *Host) Up() bool { return h.proc != nil }

// Proc is the process, nil if none runs.
func (h *Host) Proc() Process { return h.proc }

// Start starts the process.
func (h *Host) Start() {
	if h.proc != nil {
		return
	}
	h.off, h.frozenUntil = false, 0
	h.life++
	h.proc = h.New()
	h.w.Tracef("%s starts", h.Name)
	err := h.proc.Start(h)
	if h.image != nil {
		h.powerGone()
		return
	}
	if err != nil {
		h.w.Fail("%s does not start: %w", h.Name, err)
		return
	}
	h.settle()
}

// do runs f as something that happens on the host.
func (h *Host) do(f func()) {
	if h.proc == nil {
		return
	}
	f()
	h.settle()
}

func (h *Host) settle() {
	if h.proc != nil && h.image == nil {
		h.proc.Work()
	}
	if h.image != nil {
		h.powerGone()
	}
}

// After has f called on the host in d of its own time, if the process is still the same. A stopped process is late.
func (h *Host) After(d time.Duration, f func()) clock.Timer {
	t := &timer{}
	life := h.life
	var fire func()
	fire = func() {
		switch {
		case t.done || h.life != life || h.proc == nil:
		case h.frozenUntil > h.w.now:
			h.w.After(h.frozenUntil-h.w.now, fire)
		default:
			t.done = true
			h.do(f)
		}
	}
	h.w.After(time.Duration(float64(d)/h.rate), fire)
	return t
}

// Every calls f now and then, after each interval.
func (h *Host) Every(d time.Duration, f func()) {
	h.After(d, func() {
		h.Every(d, f)
		f()
	})
}

type timer struct{ done bool }

func (t *timer) Stop() bool {
	was := t.done
	t.done = true
	return !was
}

// Kill ends the process as kill -9 does: what it wrote is in the operating system's hands, and its connections end.
func (h *Host) Kill() {
	if h.proc == nil {
		return
	}
	h.w.Tracef("%s is killed", h.Name)
	h.proc.Kill()
	h.proc, h.dieIn = nil, 0
	for _, c := range h.conns {
		c.shut(true)
	}
	h.conns = nil
	h.FS = h.FS.CloneAll()
	h.life++
}

// PowerOff cuts the power: what was not synced is there in part, or not at all, and nobody is told.
func (h *Host) PowerOff() {
	if h.off {
		return
	}
	h.image = h.FS.CrashClone(h.w.Rand.Uint64())
	h.powerGone()
}

func (h *Host) powerGone() {
	h.w.Tracef("%s loses its power", h.Name)
	was := h.proc
	if was != nil {
		was.Kill()
	}
	h.proc, h.FS, h.image, h.dieIn, h.off = nil, h.image, nil, 0, true
	for _, c := range h.conns {
		c.shut(false)
	}
	h.conns = nil
	h.life++
	h.w.Check.powerLost(was)
}

// Freeze stops the process for d: nothing is read, no timer fires, and the other side notices nothing but silence.
func (h *Host) Freeze(d time.Duration) {
	if h.proc == nil {
		return
	}
	h.w.Tracef("%s is stopped for %v", h.Name, d)
	h.frozenUntil = max(h.frozenUntil, h.w.now+d)
}

// Clock is what the process reads. Now goes on evenly, as the monotonic clock does with which package time measures;
// Millis is the wall clock, which jumps.
func (h *Host) Clock() clock.Clock { return hostClock{h} }

type hostClock struct{ h *Host }

func (c hostClock) elapsed() time.Duration { return time.Duration(float64(c.h.w.now) * c.h.rate) }

// Now implements clock.Clock.
func (c hostClock) Now() time.Time { return epoch.Add(c.elapsed()) }

// Millis implements clock.Clock.
func (c hostClock) Millis() int64 { return epoch.Add(c.elapsed() + c.h.wall).UnixMilli() }

// AfterFunc implements clock.Clock.
func (c hostClock) AfterFunc(d time.Duration, f func()) clock.Timer { return c.h.After(d, f) }

// NewTicker implements clock.Clock.
func (c hostClock) NewTicker(time.Duration) clock.Ticker {
	panic("BUG: sim: a ticker needs a goroutine that waits for it")
}

// traceHandler puts what a process logs into the trace.
type traceHandler struct {
	h     *Host
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (t *traceHandler) Enabled(_ context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo && t.h.w.traceTo != nil
}

// Handle implements slog.Handler.
func (t *traceHandler) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	add := func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	}
	for _, a := range t.attrs {
		add(a)
	}
	r.Attrs(add)
	t.h.w.notef("%s: %s %s", t.h.Name, r.Level, line)
	return nil
}

// WithAttrs implements slog.Handler.
func (t *traceHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return &traceHandler{t.h, append(t.attrs[:len(t.attrs):len(t.attrs)], a...)}
}

// WithGroup implements slog.Handler.
func (t *traceHandler) WithGroup(string) slog.Handler { return t }
