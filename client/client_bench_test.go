package client

import (
	"testing"

	"skylark/codec"
)

func BenchmarkSendTemplate(b *testing.B) {
	for _, typ := range bothTypes {
		b.Run(typ.String(), func(b *testing.B) {
			tmpl := testTemplate(b, typ, codec.ReqSendMessageV2, 0)
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				tmpl.AppendHead(buf, Send{Opaque: FirstOpaque + 5, BornMillis: 1700000000000, BodyBytes: 1024})
			}
		})
	}
}

func BenchmarkPeekAnswer(b *testing.B) {
	for _, typ := range bothTypes {
		b.Run(typ.String(), func(b *testing.B) {
			id := []byte("7F00000100002A9F0000000000000001")
			f := splitOne(b, sendAnswer(typ, 1234567890, codec.SendResponse{TransactionID: id}))
			var cmd codec.Command
			b.ReportAllocs()
			for b.Loop() {
				_, _ = PeekAnswer(f, &cmd)
			}
		})
	}
}

func BenchmarkPullFrames(b *testing.B) {
	for _, typ := range bothTypes {
		b.Run(typ.String(), func(b *testing.B) {
			var p PullFrames
			h := codec.PullMessageHeader{ConsumerGroup: []byte("g"), Topic: []byte("T"), Subscription: []byte("*"),
				ExpressionType: []byte("TAG"), QueueOffset: 123456}
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				p.Append(buf, typ, 1, &h)
			}
		})
	}
}
