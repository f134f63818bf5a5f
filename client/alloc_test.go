//go:build !race

package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// TestNoRaceAllocs: what runs for every message of a load generator allocates nothing.
func TestNoRaceAllocs(t *testing.T) {
	for _, typ := range bothTypes {
		tmpl := testTemplate(t, typ, codec.ReqSendMessageV2, 1)
		buf := make([]byte, 0, 64<<10)
		require.Zero(t, testing.AllocsPerRun(100, func() { tmpl.AppendHead(buf, Send{Opaque: FirstOpaque, BodyBytes: 10}) }))
		var p PullFrames
		h := codec.PullMessageHeader{ConsumerGroup: []byte("g"), Topic: []byte("T"), Subscription: []byte("*")}
		p.Append(buf, typ, 1, &h)
		require.Zero(t, testing.AllocsPerRun(100, func() { p.Append(buf, typ, 1, &h) }))
		f := splitOne(t, sendAnswer(typ, 5, codec.SendResponse{}))
		var cmd codec.Command
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = PeekAnswer(f, &cmd) }))
	}
}
