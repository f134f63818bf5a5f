package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/broker/pop"
	"skylark/codec"
)

// Acks that come together take one record for each check point, and are judged one by one.
func TestAcksOfOneTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startPopBroker(t, "")
		b.createTopic("T", 2, 6)
		b.createGroup("g", nil)
		b.sendN("T", 0, 6)
		b.sendN("T", 1, 3)
		b.waitQueue("T", 0, 6)
		b.waitQueue("T", 1, 3)
		all := b.popN("T", 32, 10*time.Second)
		require.Len(t, all, 9)
		item := func(m popped) pop.AckItem {
			return pop.AckItem{Receipt: m.receipt, Topic: "T", Group: "g", QueueID: m.receipt.QueueID, Offset: m.receipt.Offset}
		}
		var items []pop.AckItem
		for _, m := range all {
			items = append(items, item(m))
		}
		wrong := item(all[0])
		wrong.Offset++
		late := item(all[0])
		late.Receipt.PopTime -= 20_000
		late.Receipt.StartOffset = late.Offset
		items = append(items, wrong, item(all[1]), late)
		end := b.pop.AckAll(items)
		require.Positive(t, end)
		for i := range all {
			require.NoError(t, items[i].Err)
		}
		require.ErrorIs(t, items[9].Err, pop.ErrMismatch)
		require.ErrorIs(t, items[10].Err, pop.ErrSettled)
		require.ErrorIs(t, items[11].Err, pop.ErrLate)
		synctest.Wait()
		var tags []string
		for _, rec := range b.all(codec.TimerTopic, 0) {
			tag, _ := rec.Property(codec.PropTags)
			tags = append(tags, string(tag))
		}
		require.Equal(t, []string{"ck", "ck", "bAck", "bAck"}, tags)
		time.Sleep(30 * time.Second)
		require.Empty(t, b.popN("T", 32, 10*time.Second), "all are acknowledged")
	})
}

// Each ack of a turn gets its answer, whoever else is in the turn; under SYNC_FLUSH too.
func TestAcksAreAnsweredEach(t *testing.T) {
	for _, conf := range []string{"", "flushDiskType=SYNC_FLUSH\n"} {
		synctest.Test(t, func(t *testing.T) {
			b := startPopBroker(t, conf)
			b.createTopic("T", 1, 6)
			b.createGroup("g", nil)
			b.sendN("T", 0, 20)
			b.waitQueue("T", 0, 20)
			all := b.popN("T", 20, 10*time.Second)
			require.Len(t, all, 20)
			var answers []<-chan *codec.Command
			for i, m := range all {
				handle := m.receipt.String()
				if i%5 == 4 {
					handle = fmt.Sprint("garbled ", i)
				}
				answers = append(answers, b.begin(request(codec.ReqAckMessage, &codec.AckMessageRequestHeader{ConsumerGroup: "g",
					Topic: "T", QueueID: 0, ExtraInfo: handle, Offset: m.receipt.Offset}, nil)))
			}
			for i, ch := range answers {
				want := codec.RespSuccess
				if i%5 == 4 {
					want = codec.RespMessageIllegal
				}
				require.Equal(t, want, await(t, ch).Code, i)
			}
			time.Sleep(15 * time.Second)
			again := b.popN("T", 20, 10*time.Second)
			require.Len(t, again, 4)
		})
	}
}
