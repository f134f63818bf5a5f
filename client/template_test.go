package client

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

var bothTypes = []codec.SerializeType{codec.SerializeJSON, codec.SerializeROCKETMQ}

func testIDs() *codec.UniqueIDGenerator {
	now := func() time.Time { return time.UnixMilli(1700000000000) }
	return codec.NewUniqueIDGenerator(netip.MustParseAddr("10.1.2.3"), 7, 9, now)
}

func testTemplate(t testing.TB, typ codec.SerializeType, code, keys int) *SendTemplate {
	t.Helper()
	props := codec.AppendProperty(codec.AppendProperty(nil, codec.PropTags, `Tag"A`), codec.PropWaitStoreMsgOK, "true")
	tmpl, err := NewSendTemplate(TemplateOptions{Type: typ, Code: code, UniqKeys: testIDs(), Keys: keys,
		Property: "own", PropertyBytes: 6,
		Header: codec.SendMessageHeader{ProducerGroup: []byte("pg"), Topic: []byte("T"), DefaultTopic: []byte("TBW102"),
			DefaultTopicQueueNums: 8, QueueID: 3, Properties: codec.Field{Value: props}}})
	require.NoError(t, err)
	return tmpl
}

// decodeSend reads a frame the way a broker does.
func decodeSend(t *testing.T, frame []byte) (*codec.Command, *codec.SendMessageHeader) {
	t.Helper()
	f, n, _, err := codec.SplitFrame(frame, codec.MaxFrameBytes)
	require.NoError(t, err)
	require.Equal(t, len(frame), n)
	cmd, h := &codec.Command{}, &codec.SendMessageHeader{}
	require.NoError(t, cmd.Decode(f))
	require.NoError(t, h.Decode(cmd))
	return cmd, h
}

func TestSendTemplate(t *testing.T) {
	f := func(typ codec.SerializeType, code, keys int) {
		t.Helper()
		tmpl := testTemplate(t, typ, code, keys)
		seen := map[string]bool{}
		for i, opaque := range []int32{FirstOpaque, FirstOpaque + 1, FirstOpaque + OpaqueSpan - 1} {
			body := []byte(fmt.Sprintf("body %d", i*1000))
			born := int64(1700000000123) + int64(i)
			send := Send{Opaque: opaque, BornMillis: born, Key: uint64(i) + 0xABC, BodyBytes: len(body),
				Property: []byte("value")} // one character short
			frame := tmpl.AppendHead([]byte("before"), send)
			require.Len(t, frame, len("before")+tmpl.HeadBytes())
			cmd, h := decodeSend(t, append(frame[len("before"):], body...))
			require.Equal(t, code, cmd.Code)
			require.Equal(t, opaque, cmd.Opaque)
			require.False(t, cmd.IsOneway())
			require.Equal(t, body, cmd.Body)
			require.Equal(t, "T", string(h.Topic))
			require.EqualValues(t, 3, h.QueueID)
			require.Equal(t, born, h.BornTimestamp)
			require.Equal(t, code == codec.ReqSendBatchMessage, h.Batch)
			props := codec.ParseProperties(h.Properties.AppendValue(nil))
			require.Equal(t, `Tag"A`, props[codec.PropTags])
			require.Equal(t, "value0", props["own"])
			id, err := codec.ParseUniqueID(props[codec.PropUniqKey])
			require.NoError(t, err)
			require.EqualValues(t, 7, id.PID)
			require.False(t, seen[props[codec.PropUniqKey]])
			seen[props[codec.PropUniqKey]] = true
			switch keys {
			case 0:
				require.NotContains(t, props, codec.PropKeys)
			case 2:
				require.Equal(t, fmt.Sprintf("%016X-0 %016X-1", i+0xABC, i+0xABC), props[codec.PropKeys])
			}
		}
	}
	for _, typ := range bothTypes {
		f(typ, codec.ReqSendMessageV2, 0)
		f(typ, codec.ReqSendMessageV2, 2)
		f(typ, codec.ReqSendMessage, 2)
		f(typ, codec.ReqSendBatchMessage, 0)
	}
}

func TestSendTemplateOneway(t *testing.T) {
	tmpl, err := NewSendTemplate(TemplateOptions{Oneway: true, Header: codec.SendMessageHeader{Topic: []byte("T")}})
	require.NoError(t, err)
	cmd, h := decodeSend(t, tmpl.AppendHead(nil, Send{Opaque: FirstOpaque}))
	require.True(t, cmd.IsOneway())
	require.Equal(t, codec.ReqSendMessageV2, cmd.Code)
	require.Nil(t, h.Properties.Value)
	require.Zero(t, h.BornTimestamp)
}

// A value of the caller that looks like a place of ours is left alone.
func TestSendTemplateOfConfusingValues(t *testing.T) {
	for _, typ := range bothTypes {
		props := codec.AppendProperty(nil, "p", "1000000000 2111111111 00000000000000000000000000000000 1111111111111111")
		tmpl, err := NewSendTemplate(TemplateOptions{Type: typ, UniqKeys: testIDs(), Keys: 1,
			Header: codec.SendMessageHeader{ProducerGroup: []byte("1000000000000"), Topic: []byte("2111111111111"),
				DefaultTopic: []byte("1111111111111111"), Properties: codec.Field{Value: props}}})
		require.NoError(t, err)
		_, h := decodeSend(t, tmpl.AppendHead(nil, Send{Opaque: 1234567890, BornMillis: 1700000000000, Key: 5}))
		require.Equal(t, "1000000000000", string(h.ProducerGroup))
		require.Equal(t, "2111111111111", string(h.Topic))
		require.Equal(t, "1000000000 2111111111 00000000000000000000000000000000 1111111111111111",
			codec.ParseProperties(h.Properties.AppendValue(nil))["p"])
	}
}

func TestPutNumbers(t *testing.T) {
	b := make([]byte, 6)
	putDecimal(b, 1234)
	require.Equal(t, "001234", string(b))
	putHex(b, 0xBEEF)
	require.Equal(t, "00BEEF", string(b))
}
