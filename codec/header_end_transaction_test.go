package codec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var bothTypes = []SerializeType{SerializeJSON, SerializeROCKETMQ}

func TestEndTransactionHeader(t *testing.T) {
	full := EndTransactionRequestHeader{Topic: "T", ProducerGroup: "g\"é", TranStateTableOffset: 1 << 40,
		CommitLogOffset: 1 << 50, CommitOrRollback: 8, FromTransactionCheck: true, MsgID: "id", TransactionID: "x"}
	for _, typ := range bothTypes {
		req := NewRequest(ReqEndTransaction)
		req.Type = typ
		EncodeHeader(req, &full)
		f, _, _, err := SplitFrame(req.AppendTo(nil), MaxFrameBytes)
		require.NoError(t, err)
		var c Command
		require.NoError(t, c.Decode(f))
		var h EndTransactionHeader
		for range 2 {
			require.NoError(t, h.Decode(&c))
			require.Equal(t, full.ProducerGroup, string(h.ProducerGroup))
			require.Equal(t, "id", string(h.MsgID))
			require.Equal(t, full.TranStateTableOffset, h.TranStateTableOffset)
			require.Equal(t, full.CommitLogOffset, h.CommitLogOffset)
			require.EqualValues(t, 8, h.CommitOrRollback)
			require.True(t, h.FromTransactionCheck)
		}
	}
	f := func(want string, alter func(c *Command)) {
		t.Helper()
		req := NewRequest(ReqEndTransaction)
		EncodeHeader(req, &full)
		alter(req)
		var h EndTransactionHeader
		var e *HeaderError
		require.ErrorAs(t, h.Decode(req), &e)
		require.Equal(t, want, e.Field)
	}
	for _, name := range []string{"producerGroup", "msgId", "tranStateTableOffset", "commitLogOffset", "commitOrRollback"} {
		f(name, func(c *Command) {
			for i := range c.Fields {
				if string(c.Fields[i].Key) == name {
					c.Fields[i].Key = []byte("other")
				}
			}
		})
	}
	for _, name := range []string{"tranStateTableOffset", "commitLogOffset", "commitOrRollback"} {
		f(name, func(c *Command) { c.Lookup(name).Value = []byte("12x") })
	}
}
