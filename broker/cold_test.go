package broker

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
	"skylark/reactor"
	"skylark/zerocopy"
)

// coldDisk is a file system whose log is in memory or not, as the test says.
func coldDisk() (fsys *vfs.MemFS, cold *atomic.Bool) {
	cold = &atomic.Bool{}
	return vfs.NewMemWith(vfs.MemOptions{Resident: func(name string, _, _ int64) (bool, error) {
		return !cold.Load() || !strings.Contains(name, "/commitlog/"), nil
	}}), cold
}

// recorder is a sink that keeps what is sent to it.
type recorder struct {
	sink
	sent chan []byte
}

func (c *recorder) SendOutbox(o *reactor.Outbox) error {
	var all []byte
	o.Each(func(part []byte, _ zerocopy.Owner) { all = append(all, part...) })
	o.Release()
	c.sent <- all
	return nil
}

// What is not in memory is read by those who may wait: the pull pool, and the readers for a pull that was woken.
func TestColdReads(t *testing.T) {
	fsys, cold := coldDisk()
	b := start(t, setup{fs: fsys})
	b.createGroup("g", nil)
	b.mustSend("T", 0, "", "first")
	b.waitQueue("T", 0, 1)
	b = b.restart() // what was just written would be in memory
	cold.Store(true)
	p := newLoop(t, b, pullRequest("g", "T", 0, 0, 0))
	require.Empty(t, p.answers(t), "not on the loop")
	answer, _ := b.pull("T", 0, 0)
	require.Equal(t, []string{"first"}, bodies(t, answer))

	b = b.restart()
	sub, err := b.subscriptions.Get([]byte("*"), []byte("TAG"))
	require.NoError(t, err)
	woken := func() *codec.Command {
		c := &recorder{sink: sink{id: sinkIDs.Add(1) | 1<<60}, sent: make(chan []byte, 1)}
		w := &heldPull{b: b.Broker, sub: sub, conn: c, code: codec.ReqPullMessage, opaque: 7,
			h: codec.PullMessageHeader{ConsumerGroup: []byte("g"), Topic: []byte("T"), MaxMsgNums: 32,
				SysFlag: codec.PullFlagSubscription, Subscription: []byte("*")}}
		w.Wake()
		f, _, _, err := codec.SplitFrame(<-c.sent, codec.MaxFrameBytes)
		require.NoError(t, err)
		var answer codec.Command
		require.NoError(t, answer.Decode(f))
		return answer.Clone()
	}
	limit := b.readers.limit
	b.readers.limit = 0
	require.Equal(t, codec.RespSystemBusy, woken().Code, "too many wait for the disk")
	b.readers.limit = limit
	require.Equal(t, []string{"first"}, bodies(t, woken()))
}

// Where a group reads from is suggested as its configuration says.
func TestSuggestedBroker(t *testing.T) {
	b := startBroker(t, "slaveReadEnable=true\n")
	b.mustSend("T", 0, "", "m")
	b.waitQueue("T", 0, 1)
	b.createGroup("g", func(g *body.SubscriptionGroupConfig) { g.BrokerID = 2 })
	_, h := b.pull("T", 0, 0)
	require.EqualValues(t, 2, h.SuggestWhichBrokerID)
	b = startBroker(t, "")
	b.createGroup("g", func(g *body.SubscriptionGroupConfig) { g.BrokerID = 2 })
	_, h = b.pull("T", 0, 0)
	require.EqualValues(t, codec.MasterID, h.SuggestWhichBrokerID)
}

// Bits of the sysFlag that only the broker sets do no harm when a client sets them.
func TestForgedSysFlag(t *testing.T) {
	b := startBroker(t, "")
	for _, flag := range []int32{codec.SysFlagBornHostV6 | codec.SysFlagStoreHostV6, codec.SysFlagTransactionCommit,
		codec.SysFlagMultiTags, -1 &^ (codec.SysFlagTransactionMask | codec.SysFlagInnerBatch)} {
		answer := b.do(sendWith("T", []byte("m"), func(h *codec.SendMessageHeader) { h.SysFlag = flag }))
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
	}
	b.waitQueue("T", 0, 4)
	for _, rec := range b.all("T", 0) {
		require.Equal(t, "m", string(rec.Body))
		require.Equal(t, b.LocalAddr().String(), rec.BornHost.String())
		require.Zero(t, rec.SysFlag&(codec.SysFlagBornHostV6|codec.SysFlagTransactionMask))
	}
	answer, _ := b.pull("T", 0, 0)
	require.Len(t, bodies(t, answer), 4)
}

// Both ways of transfer give the same bytes.
func TestTransferByHeap(t *testing.T) {
	var got [2][]byte
	for i, conf := range []string{"transferMsgByHeap=true\n", "transferMsgByHeap=false\n"} {
		b := startBroker(t, conf+"mappedFileSizeCommitLog=65536\n")
		for range 100 { // over two files
			b.mustSend("T", 0, "UNIQ_KEY\x01u", strings.Repeat("x", 1000))
		}
		b.waitQueue("T", 0, 100)
		for at := codec.QueueOffset(0); at < 100; {
			answer, h := b.pull("T", 0, at)
			require.Equal(t, codec.RespSuccess, answer.Code)
			for _, rec := range records(t, answer.Body) {
				got[i] = append(got[i], rec.Body...)
			}
			at = h.NextBeginOffset
		}
	}
	require.Equal(t, got[0], got[1])
	require.Len(t, got[0], 100000)
}

// litePullMessageEnable=false refuses request 361 only.
func TestLitePullDisabled(t *testing.T) {
	b := startBroker(t, "litePullMessageEnable=false\n")
	b.mustSend("T", 0, "", "m")
	b.waitQueue("T", 0, 1)
	req := pullRequest("g", "T", 0, 0, 0)
	req.Code = codec.ReqLitePullMessage
	answer := b.do(req)
	require.Equal(t, codec.RespNoPermission, answer.Code)
	require.Contains(t, answer.Remark, "for lite pull consumer is forbidden")
	answer, _ = b.pull("T", 0, 0)
	require.Equal(t, codec.RespSuccess, answer.Code)
}

// A broker without read permission serves no pulls.
func TestPullWithoutBrokerPermission(t *testing.T) {
	b := startBroker(t, "brokerPermission=2\n")
	b.mustSend("T", 0, "", "m")
	answer, _ := b.pull("T", 0, 0)
	require.Equal(t, codec.RespNoPermission, answer.Code)
	require.Contains(t, answer.Remark, "pulling message is forbidden")
}

// longPollingEnable=false waits shortPollingTimeMills only.
func TestShortPolling(t *testing.T) {
	b := startBroker(t, "longPollingEnable=false\nshortPollingTimeMills=50\n")
	b.createTopic("T", 1, 6)
	answer, _ := b.pulled(await(t, b.begin(pullRequest("g", "T", 0, 0, maxSuspend))))
	require.Equal(t, codec.RespPullNotFound, answer.Code)
}
