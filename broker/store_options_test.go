package broker

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/config"
)

// TestTransientStorePoolCondition: masters have the pool, and slaves where a controller may make them masters.
func TestTransientStorePoolCondition(t *testing.T) {
	f := func(enable, controller bool, role config.BrokerRole, want bool) {
		t.Helper()
		b := &Broker{}
		b.cfg.store, b.cfg.broker = &config.MessageStoreConfig{}, &config.BrokerConfig{}
		b.cfg.store.TransientStorePoolEnable, b.cfg.store.BrokerRole = enable, role
		b.cfg.broker.EnableControllerMode = controller
		require.Equal(t, want, b.transientStorePoolEnable())
	}
	f(false, true, config.AsyncMaster, false)
	f(true, false, config.AsyncMaster, true)
	f(true, false, config.SyncMaster, true)
	f(true, false, config.Slave, false)
	f(true, true, config.Slave, true)
}

// TestTransientStorePool: what was sent is received, the runtime information tells of the pool, and a stop loses nothing.
func TestTransientStorePool(t *testing.T) {
	f := func(flush string) {
		t.Helper()
		b := startBroker(t, "transientStorePoolEnable=true\ntransientStorePoolSize=4\nmappedFileSizeCommitLog=65536\n"+
			"commitCommitLogThoroughInterval=5\nflushDiskType="+flush+"\n")
		for i := range 200 {
			b.mustSend("T", 0, "", fmt.Sprintf("%d %01000d", i, i))
		}
		b.waitQueue("T", 0, 200)
		info := b.RuntimeInfo()
		require.NotEqual(t, "2147483647", info["remainTransientStoreBufferNumbs"])
		require.Contains(t, info, "remainHowManyDataToCommit")
		require.Equal(t, "0", info["writerPageFaults"])
		b.mustSend("T", 0, "", "the last")
		b = b.restart()
		b.waitQueue("T", 0, 201)
		require.Len(t, b.all("T", 0), 201)
	}
	f("ASYNC_FLUSH")
	f("SYNC_FLUSH")

	b := startBroker(t, "")
	require.Equal(t, "2147483647", b.RuntimeInfo()["remainTransientStoreBufferNumbs"])
	require.NotContains(t, b.RuntimeInfo(), "remainHowManyDataToCommit")
	answer := b.send("T", 0, "", []byte("x"))
	require.Equal(t, codec.RespSuccess, answer.Code)
}
