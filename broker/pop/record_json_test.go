package pop

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"skylark/codec"
	"skylark/codec/fastjson"
)

// The bodies that are written by hand are what fastjson writes.
func TestBodiesByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		offsets := rapid.SliceOfN(rapid.Int64(), 0, 5)
		ck := CheckPoint{BitMap: rapid.Int32().Draw(t, "bm"), BrokerName: text.Draw(t, "bn"), Group: text.Draw(t, "c"),
			Diffs: rapid.SliceOfN(rapid.Int32(), 0, 5).Draw(t, "d"), Invisible: rapid.Int64().Draw(t, "it"),
			Num: rapid.Int8().Draw(t, "n"), PopTime: rapid.Int64().Draw(t, "pt"), QueueID: rapid.Int32().Draw(t, "q"),
			ReviveTime: 5, ReviveOffset: -1, RePut: text.Draw(t, "rp"), StartOffset: 7, Topic: text.Draw(t, "t")}
		if len(ck.Diffs) == 0 && rapid.Bool().Draw(t, "none") {
			ck.Diffs = nil
		}
		want, err := fastjson.Marshal(&ck)
		require.NoError(t, err)
		require.Equal(t, string(want), string(ck.appendJSON(nil)))
		a := ackRecord{Offset: -1, BrokerName: ck.BrokerName, Group: ck.Group, PopTime: ck.PopTime, QueueID: ck.QueueID,
			StartOffset: 9, Topic: ck.Topic}
		for _, o := range offsets.Draw(t, "aol") {
			a.Offsets = append(a.Offsets, codec.QueueOffset(o))
		}
		want, err = fastjson.Marshal(&a)
		require.NoError(t, err)
		require.Equal(t, string(want), string(a.appendJSON(nil)))
	})
}
