package reply

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/codec"
	"skylark/internal/clock"
	"skylark/reactor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeConn is a connection that only has an identity.
type fakeConn struct {
	reactor.Conn
	id uint64
}

func (c fakeConn) ID() uint64                 { return c.id }
func (c fakeConn) RemoteAddr() netip.AddrPort { return netip.MustParseAddrPort("10.0.0.9:999") }

// The request carries what Java's has; the remarks are Java's.
func TestPush(t *testing.T) {
	var sent *codec.Command
	var answer *codec.Command
	var failure error
	p := NewPusher(Options{
		Find: func(id string) reactor.Conn {
			if id == "c1" {
				return fakeConn{id: 7}
			}
			return nil
		},
		Call: func(c reactor.Conn, req *codec.Command, timeout time.Duration, done func(*codec.Command, error)) {
			require.EqualValues(t, 7, c.ID())
			require.Equal(t, 10*time.Second, timeout)
			sent = req
			done(answer, failure)
		},
		StoreHost: func() netip.AddrPort { return netip.MustParseAddrPort("[2001:db8::1]:10911") },
		Clock:     clock.System, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	header := &codec.SendMessageHeader{ProducerGroup: []byte("pg"), Topic: []byte("C_REPLY_TOPIC"),
		DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 4, QueueID: 1, SysFlag: 0x101, BornTimestamp: 12345, Flag: 3,
		ReconsumeTimes: 2, UnitMode: true}
	push := func(props string) string {
		sent = nil
		remark, calls := "", 0
		p.Push(&Reply{Header: header, Properties: []byte(props), Body: []byte("yes"),
			From: netip.MustParseAddrPort("10.0.0.1:4711")}, func(r string) { remark, calls = r, calls+1 })
		require.Equal(t, 1, calls)
		return remark
	}
	answer = codec.NewResponse(codec.NewRequest(codec.ReqPushReplyMessageToClient), codec.RespSuccess, "")
	before := time.Now().UnixMilli()
	require.Empty(t, push("CORRELATION_ID\x01x\x02PUSH_REPLY_TIME\x01old\x02REPLY_TO_CLIENT\x01c1\x02"))
	var h codec.ReplyMessageRequestHeader
	require.NoError(t, codec.DecodeHeader(sent, &h))
	require.Equal(t, codec.ReqPushReplyMessageToClient, sent.Code)
	require.Equal(t, "yes", string(sent.Body))
	require.GreaterOrEqual(t, h.StoreTimestamp, before)
	two := int32(2)
	require.Equal(t, codec.ReplyMessageRequestHeader{TopicHeader: h.TopicHeader, ProducerGroup: "pg", Topic: "C_REPLY_TOPIC",
		DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: 1, SysFlag: 0x101, BornTimestamp: 12345, Flag: 3,
		Properties:     fmt.Sprintf("CORRELATION_ID\x01x\x02REPLY_TO_CLIENT\x01c1\x02PUSH_REPLY_TIME\x01%d\x02", h.StoreTimestamp),
		ReconsumeTimes: &two, UnitMode: true, BornHost: "10.0.0.1:4711", StoreHost: "2001:db8::1:10911",
		StoreTimestamp: h.StoreTimestamp}, h)

	answer.Code = codec.RespSystemError
	require.Equal(t, "push reply message to c1fail.", push("REPLY_TO_CLIENT\x01c1\x02"))
	failure = errors.New("gone")
	require.Equal(t, "push reply message to c1fail.", push("REPLY_TO_CLIENT\x01c1\x02"))
	require.Equal(t, "push reply message fail, channel of <c2> not found.", push("REPLY_TO_CLIENT\x01c2\x02"))
	require.Nil(t, sent)
	require.Equal(t, "reply message properties[REPLY_TO_CLIENT] is null", push("CORRELATION_ID\x01x\x02"))
	require.Nil(t, sent)
}

func TestRequesters(t *testing.T) {
	r := NewRequesters()
	found := func(id string) uint64 {
		if c := r.Find(id); c != nil {
			return c.ID()
		}
		return 0
	}
	r.Note([]byte("a"), fakeConn{id: 1})
	r.Note([]byte("b"), fakeConn{id: 1})
	require.EqualValues(t, 1, found("a"))
	r.Note([]byte("a"), fakeConn{id: 2})
	require.EqualValues(t, 2, found("a"), "the last one counts")
	r.Drop(1)
	require.EqualValues(t, 2, found("a"))
	require.Zero(t, found("b"))
	r.Drop(2)
	r.Drop(3)
	require.Zero(t, r.Len())
	require.Empty(t, r.conns)

	for i := range MaxPerConn + 5 {
		r.Note(fmt.Append(nil, i), fakeConn{id: 4})
	}
	require.Equal(t, MaxPerConn, r.Len())
	r.Note([]byte(strings.Repeat("x", MaxClientID+1)), fakeConn{id: 5})
	require.Equal(t, MaxPerConn, r.Len())
	id, c := []byte("3"), reactor.Conn(fakeConn{id: 4})
	require.Zero(t, testing.AllocsPerRun(100, func() { r.Note(id, c) }))
}
