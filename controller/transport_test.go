package controller

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"skylark/client"
	"skylark/controller/node"
)

// What does not fit is dropped, and a snapshot that is dropped is told of: without that no more is sent to the member.
func TestLinkIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		dialer := client.DialerFunc(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done() // a machine that does not answer
			return nil, ctx.Err()
		})
		c := client.New(client.Options{Dialer: dialer, Log: slog.New(slog.DiscardHandler)})
		var snaps []bool
		l := &link{to: member{"n1", "10.0.0.1:1"}, raftID: node.RaftID("n1"), group: "g", from: "n0", client: c, ctx: ctx,
			log: slog.New(slog.DiscardHandler), unreachable: func(uint64) {},
			snapshotSent: func(_ uint64, ok bool) { snaps = append(snaps, ok) }}
		l.send(&raftpb.Message{Type: raftpb.MsgHeartbeat})
		synctest.Wait() // it is under way
		for range maxPeerMessages + 100 {
			l.send(&raftpb.Message{Type: raftpb.MsgHeartbeat})
		}
		require.Len(t, l.queue, maxPeerMessages)
		l.send(&raftpb.Message{Type: raftpb.MsgSnap})
		require.Equal(t, []bool{false}, snaps)
		l.queue, l.snaps, l.bytes = nil, nil, 0
		big := raftpb.Message{Type: raftpb.MsgApp, Entries: []raftpb.Entry{{Data: make([]byte, maxPeerBytes)}}}
		l.send(&big) // an empty queue takes anything
		l.send(&raftpb.Message{Type: raftpb.MsgHeartbeat})
		require.Len(t, l.queue, 1)
		cancel()
		l.drain(t.Context())
		l.send(&raftpb.Message{Type: raftpb.MsgSnap})
		require.Equal(t, []bool{false, false}, snaps)
		require.NoError(t, c.Close())
		l.wg.Wait()
	})
}

// A snapshot goes alone, everything else together as far as it fits.
func TestLinkBatches(t *testing.T) {
	l := &link{running: true}
	put := func(kind raftpb.MessageType, size int) {
		l.send(&raftpb.Message{Type: kind, From: node.RaftID("n0"), Entries: []raftpb.Entry{{Data: make([]byte, size)}}})
	}
	take := func(wantMessages int, wantSnap bool) {
		t.Helper()
		body, snap, ok := l.next()
		require.True(t, ok)
		require.Equal(t, wantSnap, snap)
		ms, err := decodeMessages(body, "n0")
		require.NoError(t, err)
		require.Len(t, ms, wantMessages)
	}
	put(raftpb.MsgApp, 1)
	put(raftpb.MsgApp, 2)
	put(raftpb.MsgSnap, maxBatchBytes+1)
	put(raftpb.MsgApp, maxBatchBytes/2)
	put(raftpb.MsgApp, maxBatchBytes/2)
	put(raftpb.MsgApp, 1)
	take(2, false)
	take(1, true)
	take(1, false)
	take(2, false)
	require.Zero(t, l.bytes)
	_, _, ok := l.next()
	require.False(t, ok)
	require.False(t, l.running)
}

// FuzzDecodeMessages: no panic, and no message of anybody else.
func FuzzDecodeMessages(f *testing.F) {
	l := &link{running: true}
	l.send(&raftpb.Message{Type: raftpb.MsgApp, From: node.RaftID("n0"), Entries: []raftpb.Entry{{Data: []byte("x")}}})
	body, _, _ := l.next()
	f.Add(body)
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		ms, err := decodeMessages(body, "n0")
		if err != nil {
			return
		}
		for _, m := range ms {
			require.Equal(t, node.RaftID("n0"), m.From)
		}
	})
}
