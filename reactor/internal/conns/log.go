package conns

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"skylark/codec"
	"skylark/reactor"
)

// maxLinesPerSecond bounds what hostile peers can write into the log, for each kind of end.
const maxLinesPerSecond = 10

// Gate lets a number of log lines through a second and counts the others.
type Gate struct {
	PerSecond int

	mu         sync.Mutex
	second     int64
	lines      int
	suppressed int
}

// Allow tells whether a line may be written now, and how many were not since the last one that was.
func (g *Gate) Allow() (ok bool, suppressed int) {
	now := time.Now().Unix()
	g.mu.Lock()
	defer g.mu.Unlock()
	if now != g.second {
		g.second, g.lines = now, 0
	}
	if g.lines >= g.PerSecond {
		g.suppressed++
		return false, 0
	}
	g.lines++
	suppressed, g.suppressed = g.suppressed, 0
	return true, suppressed
}

// Journal logs why connections were closed.
type Journal struct {
	log   *slog.Logger
	gates [endKinds]Gate
}

type endKind int

const (
	endOrderly endKind = iota // the peer, the engine or an idle timer; not logged above debug
	endBroken                 // reset by the peer
	endSlow
	endMalformed
	endOther
	endKinds
)

// NewJournal writes to log.
func NewJournal(log *slog.Logger) *Journal {
	j := &Journal{log: log}
	for i := range j.gates {
		j.gates[i].PerSecond = maxLinesPerSecond
	}
	return j
}

// End is what is logged about the end of a connection.
type End struct {
	Reason       error
	PendingBytes int // waiting for the socket
	HeldBytes    int // received and not served
}

// Closed logs an end. c is only asked for its number and address.
func (j *Journal) Closed(c reactor.Conn, e End) {
	kind, level := classify(e.Reason)
	if !j.log.Enabled(context.Background(), level) {
		return
	}
	ok, suppressed := j.gates[kind].Allow()
	if !ok {
		return
	}
	args := []any{"conn", c.ID(), "remote", c.RemoteAddr(), "reason", e.Reason,
		"pendingBytes", e.PendingBytes, "heldBytes", e.HeldBytes}
	if suppressed > 0 {
		args = append(args, "suppressed", suppressed)
	}
	j.log.Log(context.Background(), level, "connection closed", args...)
}

func classify(reason error) (endKind, slog.Level) {
	switch {
	case reason == nil, errors.Is(reason, reactor.ErrStopped), errors.Is(reason, reactor.ErrIdle):
		return endOrderly, slog.LevelDebug
	case errors.Is(reason, reactor.ErrSlowReader):
		return endSlow, slog.LevelWarn
	case errors.Is(reason, codec.ErrMalformed):
		return endMalformed, slog.LevelWarn
	case errors.Is(reason, errBroken):
		return endBroken, slog.LevelDebug
	}
	return endOther, slog.LevelWarn
}

// errBroken marks errors of a socket: the peer is gone.
var errBroken = errors.New("connection broken")

// Broken marks err, which a read or write of a socket returned, as the peer's end.
func Broken(err error) error { return &brokenError{err} }

type brokenError struct{ err error }

func (e *brokenError) Error() string        { return "reactor: connection broken: " + e.err.Error() }
func (e *brokenError) Unwrap() error        { return e.err }
func (e *brokenError) Is(target error) bool { return target == errBroken }

// IsBroken tells whether err came from Broken.
func IsBroken(err error) bool { return errors.Is(err, errBroken) }
