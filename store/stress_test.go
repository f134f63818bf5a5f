package store

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

// TestStress puts, reads, deletes topics and old files, and closes the store in the middle of it. What is looked at: the
// race detector, references, and that every message that can be read is the one that its queue offset says.
func TestStress(t *testing.T) {
	f := func(flush FlushDiskType, seed uint64) {
		t.Helper()
		mem := vfs.NewMem()
		o := testOptions(mem, "/store")
		o.FlushDiskType = flush
		s := openStore(t, o)
		var stop atomic.Bool
		var wg sync.WaitGroup
		var puts atomic.Int64
		for w := range 3 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(w)))
				for !stop.Load() {
					m := testMessage(fmt.Sprintf("T%d", rng.IntN(3)), int32(rng.IntN(4)), fmt.Sprintf("%0*d", rng.IntN(900), w))
					m.WaitStoreMsgOK = rng.IntN(2) == 0
					switch r := s.Put(m); r.Status {
					case PutOK:
						puts.Add(1)
					case ServiceNotAvailable: // closed
					default:
						t.Errorf("put: %v %v", r.Status, r.Err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 99))
			res := &GetResult{}
			for !stop.Load() {
				topic, queueID := fmt.Sprintf("T%d", rng.IntN(3)), int32(rng.IntN(4))
				from := s.MinOffset(topic, queueID)
				s.Get(&GetRequest{Topic: topic, QueueID: queueID, Offset: from, MaxMsgs: 10, AllowCold: true}, res)
				checkMessages(t, topic, res)
				res.Messages.Release()
			}
		})
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 77))
			for !stop.Load() {
				if rng.IntN(10) == 0 {
					if err := s.DeleteTopic("T1"); err != nil {
						t.Error(err)
					}
				}
				if _, err := s.cl.files.deleteLeading(1, func(mf *mappedFile) bool {
					return mf.fileFrom+2*mf.size < int64(s.reput.where())
				}); err != nil {
					t.Error(err)
				}
				s.clean.deleteBehindLog()
			}
		})
		require.Eventually(t, func() bool { return puts.Load() > 1000 }, 6*testWait, testTick) // the readers spin
		if seed%2 == 0 {
			require.NoError(t, s.Close())
		}
		stop.Store(true)
		wg.Wait()
		closeStore(t, s)
		require.Eventually(t, func() bool { files, mappings := mem.Handles(); return files+mappings == 0 }, testWait, testTick)
		s = openStore(t, o)
		requireGapless(t, s, s.MaxPhyOffset())
		closeStore(t, s)
	}
	for seed := range uint64(4) {
		f(AsyncFlush, seed)
		f(SyncFlush, seed)
	}
}

// checkMessages parses what a Get returned.
func checkMessages(t *testing.T, topic string, res *GetResult) {
	for _, part := range res.Messages.Parts() {
		for b := part.Bytes; len(b) > 0; {
			rec, err := codec.ParseRecord(b, true)
			if err != nil || string(rec.Topic) != topic {
				t.Errorf("got %q of %s: %v", rec.Topic, topic, err)
				return
			}
			b = b[rec.TotalSize:]
		}
	}
}
