package broker

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// endFrame is the frame of an END_TRANSACTION, oneway as clients send it.
func endFrame(t testing.TB, h *codec.EndTransactionRequestHeader) codec.Frame {
	req := codec.NewRequest(codec.ReqEndTransaction)
	req.Flag |= codec.FlagOneway
	codec.EncodeHeader(req, h)
	f, _, _, err := codec.SplitFrame(req.AppendTo(nil), codec.MaxFrameBytes)
	require.NoError(t, err)
	return f
}

// BenchmarkTransaction is a half message of 1 KiB and its commit or rollback, from the frames to the answer's bytes, as
// an event loop serves them; making the second frame is in it. Beside it the same message sent plainly.
func BenchmarkTransaction(b *testing.B) {
	data := bytes.Repeat([]byte("x"), 1024)
	props := "TRAN_MSG\x01true\x02PGROUP\x01pg\x02" + benchProps
	f := func(name string, state int32) {
		b.Run(name, func(b *testing.B) {
			br := startBroker(b, benchConf)
			br.createTopic("T", 4, 6)
			half := newLoop(b, br, sendRequest("T", 0, props, data))
			end := newLoop(b, br)
			h := codec.EndTransactionRequestHeader{Topic: "T", ProducerGroup: "pg", CommitOrRollback: state, MsgID: "id"}
			b.SetBytes(1024)
			b.ReportAllocs()
			for b.Loop() {
				put := half.answers(b)[0]
				var resp codec.SendMessageResponseHeader
				if err := codec.DecodeHeader(put, &resp); err != nil {
					b.Fatal(err)
				}
				_, h.CommitLogOffset, _ = codec.ParseOffsetMsgID(resp.MsgID)
				h.TranStateTableOffset = resp.QueueOffset
				end.frames = append(end.frames[:0], endFrame(b, &h))
				end.turn()
			}
			b.StopTimer()
			st := br.Transactions().Stats()
			require.Equal(b, st.Prepared, st.Committed+st.RolledBack)
		})
	}
	f("commit", codec.SysFlagTransactionCommit)
	f("rollback", codec.SysFlagTransactionRollback)
}

// BenchmarkTransactionEnd is the END_TRANSACTION alone, 64 of them in a turn.
func BenchmarkTransactionEnd(b *testing.B) {
	const inOneTurn = 64
	data := bytes.Repeat([]byte("x"), 1024)
	props := "TRAN_MSG\x01true\x02PGROUP\x01pg\x02" + benchProps
	br := startBroker(b, benchConf)
	br.createTopic("T", 4, 6)
	half := newLoop(b, br, repeat(inOneTurn, func(int) *codec.Command { return sendRequest("T", 0, props, data) })...)
	end := newLoop(b, br)
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += inOneTurn {
		b.StopTimer()
		end.frames = end.frames[:0]
		for _, put := range half.answers(b) {
			var resp codec.SendMessageResponseHeader
			require.NoError(b, codec.DecodeHeader(put, &resp))
			_, at, _ := codec.ParseOffsetMsgID(resp.MsgID)
			end.frames = append(end.frames, endFrame(b, &codec.EndTransactionRequestHeader{Topic: "T", ProducerGroup: "pg",
				CommitOrRollback: codec.SysFlagTransactionCommit, MsgID: "id", TranStateTableOffset: resp.QueueOffset,
				CommitLogOffset: at}))
		}
		b.StartTimer()
		end.turn()
	}
}

// BenchmarkTransactionHalf is the half message alone, 64 of them in a turn; nothing is ended.
func BenchmarkTransactionHalf(b *testing.B) {
	benchmarkHalf(b, "TRAN_MSG\x01true\x02PGROUP\x01pg\x02"+benchProps)
}

// BenchmarkTransactionPlain is the same message without a transaction.
func BenchmarkTransactionPlain(b *testing.B) { benchmarkHalf(b, "PGROUP\x01pg\x02"+benchProps) }

func benchmarkHalf(b *testing.B, props string) {
	const inOneTurn = 64
	data := bytes.Repeat([]byte("x"), 1024)
	br := startBroker(b, benchConf)
	br.createTopic("T", 4, 6)
	p := newLoop(b, br, repeat(inOneTurn, func(int) *codec.Command { return sendRequest("T", 0, props, data) })...)
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += inOneTurn {
		p.turn()
	}
}
