package bench

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"skylark/codec"
)

// StampBytes is what a stamp takes at the begin of a body.
const StampBytes = 32

// maxSeq bounds sequence numbers: 512 MiB of bits for each producer.
const maxSeq = 1 << 32

// stampMagic begins a stamp.
const stampMagic = 0x534B4231 // "SKB1"

// Stamp tells one message of a run from all others:
//
//	magic:4 | producer:4 | run:8 | seq:8 | due:8
type Stamp struct {
	Producer uint32 // the connection that sent it, from 0
	Run      uint64 // random, of the whole run
	Seq      uint64 // of the producer, from 0
	Due      int64  // when it was to be sent, nanoseconds since 1970
}

// put writes s over the first StampBytes of b.
func (s Stamp) put(b []byte) {
	be := binary.BigEndian
	be.PutUint32(b, stampMagic)
	be.PutUint32(b[4:], s.Producer)
	be.PutUint64(b[8:], s.Run)
	be.PutUint64(b[16:], s.Seq)
	be.PutUint64(b[24:], uint64(s.Due))
}

// ReadStamp reads the stamp at the begin of a body; ok is false if there is none.
func ReadStamp(b []byte) (s Stamp, ok bool) {
	be := binary.BigEndian
	if len(b) < StampBytes || be.Uint32(b) != stampMagic {
		return s, false
	}
	s = Stamp{Producer: be.Uint32(b[4:]), Run: be.Uint64(b[8:]), Seq: be.Uint64(b[16:]),
		Due: int64(be.Uint64(b[24:]))}
	return s, s.Seq < maxSeq
}

// propStamp is the property that holds the stamp, in hex, of a message with a compressed body: so neither
// side compresses for each message.
const propStamp = "SKYLARK_BENCH"

// StampOf reads the stamp of a stored message.
func StampOf(r *codec.Record) (s Stamp, ok bool) {
	if r.SysFlag&codec.SysFlagCompressed == 0 {
		return ReadStamp(r.Body)
	}
	var raw [StampBytes]byte
	if text, _ := r.Property(propStamp); len(text) == 2*StampBytes {
		if _, err := hex.Decode(raw[:], text); err == nil {
			return ReadStamp(raw[:])
		}
	}
	return s, false
}

// filler is text of size bytes that compresses about as well as records in JSON do: to a fourth.
func filler(size int) []byte {
	words := []string{"order", "customer", "amount", "currency", "status", "created", "warehouse", "quantity", "price",
		"shipping", "address", "product", "invoice", "payment", "discount", "reference"}
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 0, size+32)
	for len(b) < size {
		b = append(b, '"')
		b = append(b, words[r.IntN(len(words))]...)
		b = append(b, `":"`...)
		for range 6 {
			b = append(b, byte('0'+r.IntN(10)))
		}
		b = append(b, `",`...)
	}
	return b[:size]
}
