package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/broker/coldctr"
	"skylark/codec"
	"skylark/internal/vfs"
)

// coldConf counts everything as cold.
const coldConf = "coldDataFlowControlEnable=true\naccessMessageInMemoryHotRatio=0\ncgColdReadThreshold=100\n"

// A group over its threshold is slowed down until the counts are cleared: a pull consumer waits and gets one message, a
// push consumer is told to come back.
func TestColdFlowControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, conf: coldConf})
		b.createGroup("g", nil)
		for i := range 10 {
			b.mustSend("T", 0, "", fmt.Sprint(i))
		}
		b.waitQueue("T", 0, 10)
		pull := func(at codec.QueueOffset) (n int, took time.Duration) {
			began := time.Now()
			answer, _ := b.pull("T", 0, at)
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
			return len(bodies(t, answer)), time.Since(began)
		}
		n, took := pull(0)
		require.Equal(t, 10, n)
		require.Zero(t, took)
		n, took = pull(0)
		require.Equal(t, 1, n, "one message")
		require.GreaterOrEqual(t, took, coldHoldTime)
		require.LessOrEqual(t, took, coldHoldTime+2*coldHoldInterval)
		b.beat("c", consumer(t, "push", 1, "T *"))
		busy := func() bool {
			answer := b.do(pullWith("push", "T", 0, 0, func(h *codec.PullMessageHeader) {}))
			if answer.Code == codec.RespSystemBusy {
				require.Equal(t, coldRemark, answer.Remark)
			}
			return answer.Code == codec.RespSystemBusy
		}
		require.False(t, busy())
		require.True(t, busy())
		time.Sleep(coldctr.Interval)
		require.False(t, busy())
	})
}

// Who waits when the broker stops, or has gone, does no harm.
func TestColdHoldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, conf: coldConf})
		b.createGroup("g", nil)
		for range 3 {
			b.mustSend("T", 0, "", "m")
		}
		b.waitQueue("T", 0, 3)
		b.pull("T", 0, 0)
		gone := b.dial()
		gone.begin(pullRequest("g", "T", 0, 0, 0))
		synctest.Wait()
		gone.Conn.Close()
		time.Sleep(coldHoldTime + 2*coldHoldInterval)
		b.pull("T", 0, 0)
		b.begin(pullRequest("g", "T", 0, 0, 0))
		synctest.Wait()
	})
}

func TestColdRequests(t *testing.T) {
	b := startBroker(t, "cgColdReadThreshold=1234\n")
	info := func() (i coldctr.Info) {
		b.mustCall(codec.ReqGetColdDataFlowCtrInfo, nil, &i)
		return i
	}
	require.EqualValues(t, 1234, info().CgColdReadThreshold)
	set := func(text string) int { return b.call(codec.ReqUpdateColdDataFlowCtrConfig, nil, []byte(text)).Code }
	require.Equal(t, codec.RespSuccess, set("g1=100\ng2=200\n"))
	require.Equal(t, codec.RespInvalidParameter, set("g1=300\ng3=many\n"))
	require.Equal(t, codec.RespSystemError, set("g1=\\u12"))
	require.Equal(t, map[string]int64{"g1": 100, "g2": 200}, info().ConfigTable, "all or nothing")
	require.Equal(t, codec.RespSuccess, b.call(codec.ReqRemoveColdDataFlowCtrConfig, nil, []byte("g1")).Code)
	require.Equal(t, map[string]int64{"g2": 200}, info().ConfigTable)

	mode := func(fields map[string]string) *codec.Command {
		req := codec.NewRequest(codec.ReqSetCommitLogReadMode)
		for k, v := range fields {
			req.Set(k, v)
		}
		return b.do(req)
	}
	answer := mode(map[string]string{"READ_AHEAD_MODE": "1"})
	require.Equal(t, "set commitlog readahead mode success, mode: 1", answer.Remark)
	require.False(t, b.store.ReadAhead())
	require.Equal(t, codec.RespInvalidParameter, mode(map[string]string{"READ_AHEAD_MODE": "2"}).Code)
	require.Equal(t, codec.RespSystemError, mode(map[string]string{"READ_AHEAD_MODE": "x"}).Code)
	require.Equal(t, codec.RespSystemError, mode(nil).Code)
	require.Equal(t, codec.RespSuccess, mode(map[string]string{"READ_AHEAD_MODE": "0"}).Code)
	require.True(t, b.store.ReadAhead())
}
