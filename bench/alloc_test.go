//go:build !race

package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// TestNoRaceTurnAllocs: reading answers, recording them and writing the next requests allocates nothing.
func TestNoRaceTurnAllocs(t *testing.T) {
	for _, typ := range []codec.SerializeType{codec.SerializeJSON, codec.SerializeROCKETMQ} {
		for _, batch := range []int{1, 10} {
			o := DefaultOptions(Produce)
			o.Serialize, o.Batch, o.Keys, o.Tags = typ, batch, 1, []string{"A"}
			o.Size = 64 // a window of more than directBytes is written by a goroutine
			turn := newTurn(t, o)
			require.Zero(t, testing.AllocsPerRun(200, turn))
		}
	}
}

// TestNoRacePullAllocs: so does walking over the messages of a pull, with stamps and without.
func TestNoRacePullAllocs(t *testing.T) {
	var body []byte
	for i := range 32 {
		b := make([]byte, 1024)
		Stamp{Run: 7, Seq: uint64(i), Due: time.Now().UnixNano()}.put(b)
		body, _ = codec.AppendRecordV1(body, &codec.Message{Topic: "T", Body: b, Properties: []byte("UNIQ_KEY\x01x\x02")})
	}
	for _, kind := range []Kind{Consume, EndToEnd} {
		p := newBenchPuller(kind)
		q := &pullQueue{}
		walk := func() { require.NoError(t, p.messages(q, body, p.c.tl.now())) }
		walk()
		require.Zero(t, testing.AllocsPerRun(200, walk))
	}
}
