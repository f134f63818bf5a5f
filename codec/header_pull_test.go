package codec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPullHeader(t *testing.T) {
	for _, typ := range []SerializeType{SerializeJSON, SerializeROCKETMQ} {
		want := PullMessageHeader{ConsumerGroup: []byte("g"), Topic: []byte("T"), QueueID: 1, QueueOffset: 2,
			MaxMsgNums: 32, SysFlag: 3, CommitOffset: 4, SuspendTimeoutMillis: 15000,
			Subscription: []byte("A || \"B\""),
			SubVersion:   5, ExpressionType: []byte("TAG"), MaxMsgBytes: 6, RequestSource: RequestSourceProxyStream,
			ProxyForwardClientID: []byte("c"), BrokerName: []byte("b"), Physical: true}
		c := &Command{Code: ReqPullMessage, Type: typ}
		want.Encode(c)
		c.Set("nsd", "true")
		var h PullMessageHeader
		for range 2 {
			require.NoError(t, h.Decode(reparse(t, c)))
			h.scratch = nil
			require.Equal(t, want, h)
		}
	}
}

func TestPullHeaderMinimal(t *testing.T) {
	c := &Command{Code: ReqPullMessage}
	(&PullMessageHeader{ConsumerGroup: []byte("g"), Topic: []byte("T"),
		RequestSource: RequestSourceSDK}).Encode(c)
	require.Len(t, c.Fields, len(pullFieldNames))
	h := PullMessageHeader{Subscription: []byte("left over"), Physical: true}
	require.NoError(t, h.Decode(reparse(t, c)))
	require.Equal(t, PullMessageHeader{ConsumerGroup: []byte("g"), Topic: []byte("T"),
		RequestSource: RequestSourceSDK}, h)

	c.Set(ExtLogical, "true")
	require.NoError(t, h.Decode(reparse(t, c)))
	require.False(t, h.Physical)
}

func TestPullHeaderErrors(t *testing.T) {
	f := func(name, value, want string) {
		t.Helper()
		c := &Command{Code: ReqPullMessage}
		(&PullMessageHeader{}).Encode(c)
		c.Set(name, value)
		var h PullMessageHeader
		require.EqualError(t, h.Decode(reparse(t, c)), want)
	}
	f("queueId", "12x", `the header field "queueId" has the value "12x", which is no int32`)
	f("queueOffset", "", `the header field "queueOffset" has the value "", which is no int64`)
	f("subVersion", "99999999999999999999",
		`the header field "subVersion" has the value "99999999999999999999", which is no int64`)
	f("maxMsgBytes", "x", `the header field "maxMsgBytes" has the value "x", which is no int32`)
	f("requestSource", "4294967296",
		`the header field "requestSource" has the value "4294967296", which is no int32`)

	var h PullMessageHeader
	require.EqualError(t, h.Decode(&Command{}), `the header field "consumerGroup" is missing`)
	for i, missing := range pullFieldNames {
		c := &Command{Code: ReqPullMessage}
		(&PullMessageHeader{}).Encode(c)
		c.Fields = append(c.Fields[:i], c.Fields[i+1:]...)
		require.EqualError(t, h.Decode(c), `the header field "`+missing+`" is missing`)
	}
}

func TestPullResponse(t *testing.T) {
	one, delta := int32(1), int64(-3)
	f := func(code int, remark string, r PullResponse) {
		t.Helper()
		for _, typ := range []SerializeType{SerializeJSON, SerializeROCKETMQ} {
			frame := append(AppendPullResponse(nil, typ, 8, code, remark, &r, 4), "body"...)
			c := decodeFrame(t, frame)
			require.Equal(t, code, c.Code)
			require.Equal(t, remark, c.Remark)
			require.Equal(t, "body", string(c.Body))
			var h PullMessageResponseHeader
			require.NoError(t, DecodeHeader(c, &h))
			require.Equal(t, PullResponse(h), r)
		}
	}
	f(RespSuccess, "FOUND", PullResponse{SuggestWhichBrokerID: 1, NextBeginOffset: 2, MinOffset: 3,
		MaxOffset: 4})
	f(RespPullNotFound, "", PullResponse{})
	f(RespPullOffsetMoved, "OFFSET_TOO_SMALL", PullResponse{NextBeginOffset: 1 << 62, TopicSysFlag: &one,
		GroupSysFlag: &one})
	f(RespNoPermission, "no", PullResponse{OffsetDelta: &delta, ForbiddenType: &one})
}
