package codec

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sendCommand is a send request with the required fields only.
func sendCommand(code int, t SerializeType) *Command {
	c := &Command{Code: code, Type: t}
	long := []string{"producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag",
		"bornTimestamp", "flag"}
	values := []string{"pg", "T", "TBW102", "4", "-1", "8", "1700000000000", "7"}
	for i, v := range values {
		if UsesShortNames(code) {
			c.Set(string(rune('a'+i)), v)
		} else {
			c.Set(long[i], v)
		}
	}
	return c
}

var sendCodes = []int{ReqSendMessage, ReqSendMessageV2, ReqSendBatchMessage, ReqSendReplyMessage,
	ReqSendReplyMessageV2}

// TestSendHeaderMinimal is case B03 (b): the mandatory fields are enough, absent flags are false or 0.
func TestSendHeaderMinimal(t *testing.T) {
	for _, code := range sendCodes {
		for _, typ := range []SerializeType{SerializeJSON, SerializeROCKETMQ} {
			var h SendMessageHeader
			h.HasMax, h.Batch, h.BrokerName = true, true, []byte("left over")
			require.NoError(t, h.Decode(reparse(t, sendCommand(code, typ))))
			require.Equal(t, SendMessageHeader{ProducerGroup: []byte("pg"), Topic: []byte("T"),
				DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 4, QueueID: -1, SysFlag: 8,
				BornTimestamp: 1700000000000, Flag: 7}, h)
		}
	}
}

func TestSendHeaderFull(t *testing.T) {
	for _, code := range sendCodes {
		for _, typ := range []SerializeType{SerializeJSON, SerializeROCKETMQ} {
			props := AppendProperty(nil, PropKeys, "a \"quoted\" key")
			want := SendMessageHeader{ProducerGroup: []byte("pg"), Topic: []byte("T"), DefaultTopic: []byte("D"),
				DefaultTopicQueueNums: 4, QueueID: 1, SysFlag: 2, BornTimestamp: 3, Flag: 4,
				Properties: Field{Value: props}, ReconsumeTimes: 5, UnitMode: true, MaxReconsumeTimes: 6, HasMax: true,
				Batch: true, BrokerName: []byte("b")}
			c := &Command{Code: code, Type: typ}
			want.Encode(c)
			c.Set("unknown", "x")
			var h SendMessageHeader
			require.NoError(t, h.Decode(reparse(t, c)))
			require.Equal(t, string(props), h.Properties.Text())
			h.Properties = want.Properties
			require.Equal(t, want, h)
		}
	}
}

func TestSendHeaderErrors(t *testing.T) {
	f := func(code int, change func(c *Command), want string) {
		t.Helper()
		c := sendCommand(code, SerializeJSON)
		change(c)
		var h SendMessageHeader
		err := h.Decode(reparse(t, c))
		var he *HeaderError
		require.ErrorAs(t, err, &he)
		require.EqualError(t, err, want)
	}
	remove := func(name string) func(c *Command) {
		return func(c *Command) {
			for i := range c.Fields {
				if string(c.Fields[i].Key) == name {
					c.Fields = append(c.Fields[:i], c.Fields[i+1:]...)
					return
				}
			}
		}
	}
	set := func(name, value string) func(c *Command) { return func(c *Command) { c.Set(name, value) } }
	f(ReqSendMessageV2, func(c *Command) { c.Fields = nil }, `the header field "producerGroup" (a) is missing`)
	f(ReqSendMessage, func(c *Command) { c.Fields = nil }, `the header field "producerGroup" is missing`)
	f(ReqSendMessageV2, remove("b"), `the header field "topic" (b) is missing`)
	f(ReqSendMessageV2, remove("h"), `the header field "flag" (h) is missing`)
	f(ReqSendReplyMessage, remove("bornTimestamp"), `the header field "bornTimestamp" is missing`)
	f(ReqSendMessageV2, set("e", "12x"), `the header field "queueId" (e) has the value "12x", which is no int32`)
	f(ReqSendMessageV2, set("g", ""), `the header field "bornTimestamp" (g) has the value "", which is no int64`)
	f(ReqSendMessage, set("queueId", "99999999999999999999"),
		`the header field "queueId" has the value "99999999999999999999", which is no int32`)
	f(ReqSendMessageV2, set("j", "x"),
		`the header field "reconsumeTimes" (j) has the value "x", which is no int32`)
	f(ReqSendMessageV2, set("l", "x"),
		`the header field "maxReconsumeTimes" (l) has the value "x", which is no int32`)
	// the names of the other version do not count
	f(ReqSendMessage, func(c *Command) { *c = *sendCommand(ReqSendMessageV2, 0); c.Code = ReqSendMessage },
		`the header field "producerGroup" is missing`)
}

// TestSendHeaderEscapes has escapes where only hand-written clients put them.
func TestSendHeaderEscapes(t *testing.T) {
	c,
		err := decodeJSONHeader(`{"code":310,"extFields":{"a":"p\u0067","b":"\u0054op\u0069c","c":"T\u0042W102",` +
		`"d":"\u0034","e":"0","f":"0","g":"1","h":"0","k":"tru\u0065","m":"TRUE","n":"broker\/a",` +
		`"i":"KEYS\u0001x\u0002"}}`)
	require.NoError(t, err)
	var h SendMessageHeader
	for range 2 { // the second time with the scratch of the first
		require.NoError(t, h.Decode(c))
		require.Equal(t, "pg", string(h.ProducerGroup))
		require.Equal(t, "Topic", string(h.Topic))
		require.Equal(t, "TBW102", string(h.DefaultTopic))
		require.Equal(t, "broker/a", string(h.BrokerName))
		require.EqualValues(t, 4, h.DefaultTopicQueueNums)
		require.True(t, h.UnitMode)
		require.True(t, h.Batch)
		require.Equal(t, "KEYS\x01x\x02", h.Properties.Text())
	}
}

func TestSendResponse(t *testing.T) {
	host := netip.MustParseAddrPort("10.0.0.1:10911")
	f := func(r SendResponse, want SendMessageResponseHeader) {
		t.Helper()
		for _, typ := range []SerializeType{SerializeJSON, SerializeROCKETMQ} {
			frame := AppendSendResponse([]byte("before"), typ, -9, &r)
			require.Equal(t, "before", string(frame[:6]))
			c := decodeFrame(t, frame[6:])
			require.Equal(t, r.Code, c.Code)
			require.Equal(t, r.Remark, c.Remark)
			require.Equal(t, typ, c.Type)
			require.EqualValues(t, -9, c.Opaque)
			require.True(t, c.IsResponse())
			require.Equal(t, 479, c.Version)
			require.Equal(t, r.Region, c.Get(PropMsgRegion))
			require.Equal(t, r.TraceOn, c.Get(PropTraceSwitch) == "true")
			require.Empty(t, c.Body)
			var h SendMessageResponseHeader
			require.NoError(t, DecodeHeader(c, &h))
			require.Equal(t, want, h)
		}
	}
	f(SendResponse{StoreHost: host, PhyOffset: 0x1122334455, QueueID: 3, QueueOffset: 12,
		Region:        DefaultRegionID,
		TransactionID: []byte("UK"), TraceOn: true}, SendMessageResponseHeader{
		MsgID: "0A00000100002A9F0000001122334455", QueueID: 3, QueueOffset: 12, TransactionID: "UK"})
	f(SendResponse{Code: RespFlushDiskTimeout, StoreHost: host, Region: "r\"\n", Remark: "flush \"timeout\"\n"},
		SendMessageResponseHeader{MsgID: "0A00000100002A9F0000000000000000"})
	f(SendResponse{Code: RespSlaveNotAvailable, MsgID: []byte("0")}, SendMessageResponseHeader{MsgID: "0"})
	f(SendResponse{Code: RespFlushSlaveTimeout, StoreHost: host, PhyOffset: 1, MorePhyOffset: []PhyOffset{2, 3},
		BatchUniqID: []byte("bu"), RecallHandle: []byte("rh=")}, SendMessageResponseHeader{
		MsgID: "0A00000100002A9F0000000000000001,0A00000100002A9F0000000000000002," +
			"0A00000100002A9F0000000000000003",
		BatchUniqID: "bu", RecallHandle: "rh="})
}

// TestSendResponseEqualsCommand compares with the general encoder, byte for byte.
func TestSendResponseEqualsCommand(t *testing.T) {
	r := SendResponse{Remark: "re\"mark", MsgID: []byte("id"), QueueID: 1, QueueOffset: 2, Region: "R",
		TraceOn:       true,
		TransactionID: []byte("ü\x01"), BatchUniqID: []byte("b"), RecallHandle: []byte("h")}
	for _, typ := range []SerializeType{SerializeJSON, SerializeROCKETMQ} {
		c := &Command{Opaque: 5, Flag: FlagResponse, Version: AnnouncedVersion, Remark: r.Remark, Type: typ}
		c.Set(PropMsgRegion, "R")
		c.Set(PropTraceSwitch, "true")
		c.Set("batchUniqId", "b")
		c.Set("msgId", "id")
		c.Set("queueId", "1")
		c.Set("queueOffset", "2")
		c.Set("recallHandle", "h")
		c.Set("transactionId", "ü\x01")
		require.Equal(t, string(c.AppendTo(nil)), string(AppendSendResponse(nil, typ, 5, &r)))
	}
}

// TestPlainSendResponseEqualsCommand: the short cut of the most frequent answer has the same bytes.
func TestPlainSendResponseEqualsCommand(t *testing.T) {
	f := func(region, transactionID string, traceOn bool) {
		t.Helper()
		r := SendResponse{StoreHost: netip.MustParseAddrPort("10.11.12.13:65535"), PhyOffset: 0x123456789ABCDEF, QueueID: 3,
			QueueOffset: 1 << 40, Region: region, TransactionID: []byte(transactionID), TraceOn: traceOn}
		c := &Command{Opaque: -5, Flag: FlagResponse, Version: AnnouncedVersion}
		if region != "" {
			c.Set(PropMsgRegion, region)
		}
		c.SetBool(PropTraceSwitch, traceOn)
		c.Set("msgId", "0A0B0C0D0000FFFF0123456789ABCDEF")
		c.Set("queueId", "3")
		c.SetInt("queueOffset", 1<<40)
		if transactionID != "" {
			c.Set("transactionId", transactionID)
		}
		require.Equal(t, string(c.AppendTo(nil)), string(AppendSendResponse(nil, SerializeJSON, -5, &r)))
	}
	f("DefaultRegion", "7F00000100002A9F0000000000000001", true)
	f("", "", false)
	f("r\"\n", "ü\x01\\", true)
}

func TestSendResponseOfAFailure(t *testing.T) {
	c := decodeFrame(t, AppendSendResponse(nil, SerializeJSON, 1, &SendResponse{Code: RespMessageIllegal,
		Remark: strings.Repeat("too long ", 50), Region: DefaultRegionID}))
	require.Equal(t, RespMessageIllegal, c.Code)
	require.Nil(t, c.Lookup("msgId"))
	require.NotNil(t, c.Lookup(PropMsgRegion))
	require.Equal(t, "false", c.Get(PropTraceSwitch))
}
