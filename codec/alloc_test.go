//go:build !race

package codec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func requireNoAllocs(t *testing.T, f func()) {
	t.Helper()
	f() // fields and buffers grow once
	require.Zero(t, testing.AllocsPerRun(200, f))
}

// TestNoRaceSendAllocs is the whole send path of this package: frame, command, header, record, answer.
func TestNoRaceSendAllocs(t *testing.T) {
	for _, typ := range bothTypes {
		frame := benchSendCommand(typ).AppendTo(nil)
		var c Command
		var h SendMessageHeader
		var props, rec, out []byte
		m := Message{Topic: "TopicTest", BornHost: benchHost, StoreHost: benchHost}
		r := SendResponse{StoreHost: benchHost, Region: DefaultRegionID, TraceOn: true}
		more := []PhyOffset{1, 2, 3}
		requireNoAllocs(t, func() {
			f, _, _, err := SplitFrame(frame, MaxFrameBytes)
			if err != nil || c.Decode(f) != nil || h.Decode(&c) != nil {
				panic("cannot decode")
			}
			props = AppendProperty(h.Properties.AppendValue(props[:0]), PropMsgRegion, DefaultRegionID)
			tags, _ := LookupProperty(props, PropTags)
			m.QueueID, m.SysFlag, m.BornTimestamp, m.Flag = h.QueueID, h.SysFlag, h.BornTimestamp, h.Flag
			m.Body, m.Properties, m.TagsCode = c.Body, props, TagsCode(tags)
			if rec, err = AppendRecord(rec[:0], &m); err != nil {
				panic(err)
			}
			PatchRecord(rec, 1, 2, 3)
			r.TransactionID, _ = LookupProperty(props, PropUniqKey)
			r.MorePhyOffset = more
			out = AppendSendResponse(out[:0], typ, c.Opaque, &r)
		})
	}
}

// TestNoRaceSendV1Allocs is client-go's form of a send.
func TestNoRaceSendV1Allocs(t *testing.T) {
	for _, typ := range bothTypes {
		src := &Command{Code: ReqSendMessage, Type: typ}
		(&SendMessageHeader{ProducerGroup: []byte("pg"), Topic: []byte("T"), DefaultTopic: []byte("D"),
			Properties: Field{Value: []byte("a\x01b\x02")}}).Encode(src)
		frame := src.AppendTo(nil)
		var c Command
		var h SendMessageHeader
		requireNoAllocs(t, func() {
			f, _, _, err := SplitFrame(frame, MaxFrameBytes)
			if err != nil || c.Decode(f) != nil || h.Decode(&c) != nil {
				panic("cannot decode")
			}
		})
	}
}

// TestNoRacePullAllocs is the pull path: frame, command, header, answer, and what a consumer or reput does
// with a record.
func TestNoRacePullAllocs(t *testing.T) {
	rec, err := AppendRecord(nil, benchMessage())
	require.NoError(t, err)
	for _, typ := range bothTypes {
		frame := benchPullCommand(typ).AppendTo(nil)
		var c Command
		var h PullMessageHeader
		var out []byte
		requireNoAllocs(t, func() {
			f, _, _, err := SplitFrame(frame, MaxFrameBytes)
			if err != nil || c.Decode(f) != nil || h.Decode(&c) != nil {
				panic("cannot decode")
			}
			r, err := ParseRecord(rec, true)
			if err != nil {
				panic(err)
			}
			if _, ok := r.Property(PropTags); !ok {
				panic("no tags")
			}
			zero := int32(0)
			resp := PullResponse{NextBeginOffset: h.QueueOffset + 1, TopicSysFlag: &zero, GroupSysFlag: &zero}
			out = AppendPullResponse(out[:0], typ, c.Opaque, RespSuccess, "FOUND", &resp, len(rec))
		})
	}
}

func TestNoRacePropertyAllocs(t *testing.T) {
	props := benchMessage().Properties
	body := batchBody(t, BatchEntry{Body: []byte("a"), Properties: props}, BatchEntry{Body: []byte("b")})
	buf := make([]byte, 0, 1024)
	requireNoAllocs(t, func() {
		for name, value := range EachProperty(props) {
			if len(name) == 0 || len(value) == 0 {
				panic("empty")
			}
		}
		buf = RemoveProperty(buf[:0], props, PropTags)
		if n, err := CountBatch(body); n != 2 || err != nil {
			panic("batch")
		}
		buf = AppendOffsetMsgID(buf[:0], benchHost, 1)
	})
}
