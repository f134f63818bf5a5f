package controller

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"skylark/client"
	"skylark/codec"
	"skylark/controller/node"
)

// Limits of what waits for one member.
const (
	maxPeerMessages = 1024
	maxPeerBytes    = 32 << 20
	// maxBatchBytes bounds one request; a snapshot goes alone and may be larger, up to a frame.
	maxBatchBytes = 4 << 20
	// peerTimeout bounds the answer to a request, snapshotTimeout that to a snapshot.
	peerTimeout     = 2 * time.Second
	snapshotTimeout = 20 * time.Second
	// drainTimeout bounds what a clean stop waits for members that do not answer.
	drainTimeout = 500 * time.Millisecond
)

// Header fields of SKYLARK_CONTROLLER_RAFT.
const (
	fieldGroup = "group"
	fieldFrom  = "from"
	fieldTo    = "to"
)

// link sends Raft's messages to one member, one request at a time.
type link struct {
	to     member
	raftID uint64
	group  string
	from   string
	client *client.Client
	log    *slog.Logger
	// unreachable and snapshotSent tell the node; they do not wait.
	unreachable  func(id uint64)
	snapshotSent func(id uint64, ok bool)
	ctx          context.Context

	mu      sync.Mutex
	queue   [][]byte // encoded messages
	bytes   int
	snaps   []bool // which of queue is a snapshot
	running bool
	down    bool // the last request failed
	closed  bool
	wg      sync.WaitGroup
}

// send queues a message; it is dropped if there is no room.
func (l *link) send(m *raftpb.Message) {
	data, err := m.Marshal()
	if err != nil {
		panic("BUG: controller: " + err.Error()) // of a message that raft made
	}
	snap := m.Type == raftpb.MsgSnap
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.queue) >= maxPeerMessages || l.bytes+len(data) > maxPeerBytes && len(l.queue) > 0 {
		if snap {
			l.snapshotSent(l.raftID, false)
		}
		return
	}
	l.queue, l.snaps, l.bytes = append(l.queue, data), append(l.snaps, snap), l.bytes+len(data)
	if !l.running {
		l.running = true
		l.wg.Go(l.run)
	}
}

func (l *link) run() {
	for {
		body, snap, ok := l.next()
		if !ok {
			return
		}
		err := l.request(body, snap)
		l.mu.Lock()
		was := l.down
		l.down = err != nil
		l.mu.Unlock()
		if snap {
			l.snapshotSent(l.raftID, err == nil)
		}
		if err != nil {
			l.unreachable(l.raftID)
		}
		if err != nil && !was && l.ctx.Err() == nil {
			l.log.Warn("controller of the group is not reached", "member", l.to.id, "remote", l.to.addr, "error", err)
		} else if err == nil && was {
			l.log.Info("controller of the group is reached again", "member", l.to.id, "remote", l.to.addr)
		}
	}
}

// next takes what fits into one request; a snapshot goes alone.
func (l *link) next() (body []byte, snap, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 || l.closed {
		l.running = false
		return nil, false, false
	}
	n := 0
	for n < len(l.queue) && (n == 0 || len(body)+len(l.queue[n]) <= maxBatchBytes && !l.snaps[n] && !snap) {
		snap = l.snaps[n]
		body = binary.BigEndian.AppendUint32(body, uint32(len(l.queue[n])))
		body = append(body, l.queue[n]...)
		l.bytes -= len(l.queue[n])
		n++
	}
	l.queue, l.snaps = l.queue[n:], l.snaps[n:]
	return body, snap, true
}

func (l *link) request(body []byte, snap bool) error {
	timeout := peerTimeout
	if snap {
		timeout = snapshotTimeout
	}
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	req := codec.NewRequest(codec.ReqControllerRaft)
	req.Set(fieldGroup, l.group)
	req.Set(fieldFrom, l.from)
	req.Set(fieldTo, l.to.id)
	req.Body = body
	_, err := l.client.Do(ctx, l.to.addr, req)
	return err
}

// drain gives what waits one more moment, and ends the link: the last message of a leader that stops hands its
// leadership on.
func (l *link) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		l.wg.Wait()
	}()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
}

var errHalfMessage = errors.New("a message is cut off")

// decodeMessages reads the body of a request of member from.
func decodeMessages(body []byte, from string) (out []raftpb.Message, err error) {
	for len(body) > 0 {
		if len(body) < 4 {
			return nil, errHalfMessage
		}
		n := int64(binary.BigEndian.Uint32(body))
		if n > int64(len(body)-4) {
			return nil, errHalfMessage
		}
		var m raftpb.Message
		if err := m.Unmarshal(body[4 : 4+n]); err != nil {
			return nil, fmt.Errorf("message: %w", err)
		}
		if m.From != node.RaftID(from) {
			return nil, fmt.Errorf("message of %x in a request of %s", m.From, from)
		}
		out = append(out, m)
		body = body[4+n:]
	}
	return out, nil
}
