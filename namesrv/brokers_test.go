package namesrv

import (
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

// capturedFrame is a frame of testdata/frames, as a real broker of that release sent it.
func capturedFrame(t *testing.T, name string) *codec.Command {
	t.Helper()
	data, err := os.ReadFile("testdata/frames/" + name + ".bin")
	require.NoError(t, err)
	return firstCommand(t, data)
}

// Registrations of real brokers, plain and with compressedRegister=true, which 5.x announces as
// compressed=false.
func TestRegistrationsOfRealBrokers(t *testing.T) {
	f := func(release, addr, name string, autoCreatePerm, topics int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil, "")
			broker, cl := r.dial(), r.dial()
			register := capturedFrame(t, "register-"+release)
			require.Zero(t, replay(t, broker, register).Code)
			require.Equal(t, map[string]map[int64]string{name: {0: addr}}, addrsOf(t, cl, codec.AutoCreateTopicKey))
			require.EqualValues(t, autoCreatePerm, routeOf(t, cl, codec.AutoCreateTopicKey).QueueDatas[0].Perm)
			all := codec.NewRequest(codec.ReqGetAllTopicListFromNameserver)
			require.Len(t, listOf(t, call(t, cl, all)), topics)
			require.EqualValues(t, 1024, routeOf(t, cl, codec.BenchmarkTopic).QueueDatas[0].ReadQueueNums)
			require.Zero(t, replay(t, broker, register).Code, "again, as every 30 s")
			require.Equal(t, 1, r.log.Count("topics registered"), "nothing has changed")
			require.Zero(t, replay(t, broker, capturedFrame(t, "unregister-"+release)).Code)
			require.Nil(t, routeOf(t, cl, codec.AutoCreateTopicKey))
			require.Empty(t, clusters(t, cl))
		})
	}
	f("4.9.7", "127.0.0.1:25060", "broker-49", 7, 8)
	f("4.9.7-compressed", "127.0.0.1:25064", "broker-49", 7, 8)
	f("5.3.3-compressed", "127.0.0.1:25100", "broker-z", 7, 14)
}

// A slave older than 5.0 brings no topics, not even without a master.
func TestOldSlaveBringsNoTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		cl := r.dial()
		slave := capturedFrame(t, "register-4.9.7")
		slave.Set("brokerId", "1")
		require.Zero(t, replay(t, r.dial(), slave).Code)
		require.Nil(t, routeOf(t, cl, codec.BenchmarkTopic))
		require.Contains(t, clusters(t, cl), "127.0.0.1:25060")
		var w body.RegisterBrokerBody
		require.NoError(t, body.Decode(slave.Body, &w))
		require.Zero(t, w.TopicConfigSerializeWrapper.DataVersion.StateVersion)
	})
}
