package broker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

// RESET_MASTER_FLUSH_OFFSET: a slave keeps it, over a restart; a master does not take it.
func TestMasterFlushedOffset(t *testing.T) {
	reset := func(b *testBroker, at codec.PhyOffset) codec.PhyOffset {
		b.mustCall(codec.ReqResetMasterFlushOffset, &codec.ResetMasterFlushOffsetRequestHeader{MasterFlushOffset: at}, nil)
		return b.store.MasterFlushedOffset()
	}
	m := startBroker(t, "")
	require.Zero(t, reset(m, 4711))
	s := startReplica(t, slaveConf)
	require.EqualValues(t, 4711, reset(s, 4711))
	s = s.restart()
	var info body.HARuntimeInfo
	s.mustCall(codec.ReqGetBrokerHAStatus, nil, &info)
	require.EqualValues(t, 4711, info.HAClientRuntimeInfo.MasterFlushOffset)
}

// A broker without controllers keeps its role and says why.
func TestHandoverWithoutController(t *testing.T) {
	b := startBroker(t, "")
	answer := b.call(codec.ReqHandover, &codec.HandoverRequestHeader{To: -1}, nil)
	require.Equal(t, codec.RespSystemError, answer.Code)
	require.Contains(t, answer.Remark, "enableControllerMode")
	b.mustSend("T", 0, "", "x")
	answer = b.call(codec.ReqHandover, &codec.HandoverRequestHeader{Prepare: true}, nil)
	require.Equal(t, codec.RespSystemError, answer.Code)
	require.Contains(t, answer.Remark, "no slave")
}
