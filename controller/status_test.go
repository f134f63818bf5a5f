package controller

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

// What an operator sees of a controller: who leads, what it has decided, and who is alive.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 3, "")
		a, b := s.pair()
		leader := s.leader()
		status := func(i int) map[string]string {
			answer := s.call(i, codec.ReqGetBrokerRuntimeInfo, nil, nil)
			code(t, codec.RespSuccess, answer)
			return content[body.KVTable](t, answer).Table
		}
		info := status(leader)
		require.Equal(t, "true", info["isLeader"])
		require.Equal(t, info["controllerSelfId"], info["controllerLeaderId"])
		require.Equal(t, address(leader), info["controllerLeaderAddress"])
		require.NotEqual(t, "0", info["term"])
		require.Equal(t, "2", info["brokersAlive"])
		require.Equal(t, "1", info["mastersElectedTotal"])
		require.Equal(t, "1", info["syncStateSetsTotal"])
		require.Equal(t, "0", info["electionsFailedTotal"])
		require.Equal(t, "0", info["proposalsPending"])
		require.NotEqual(t, "0", info["heartbeatsTotal"])
		require.NotEqual(t, "0", info["proposalsTotal"])
		require.NotEqual(t, "0", info["appliedIndex"])
		require.Equal(t, "1, epoch 1, 2 of 2 replicas in sync", info["master_b"])
		require.Equal(t, "0", info["brokerNamesNotInSync"])

		follower := status((leader + 1) % 3)
		require.Equal(t, "false", follower["isLeader"])
		require.Equal(t, info["controllerLeaderId"], follower["controllerLeaderId"])
		require.Equal(t, "0", follower["mastersElectedTotal"])

		a.dead()
		s.eventually("the other one is elected", func() bool { return status(leader)["mastersElectedTotal"] == "2" })
		s.eventually("and told", func() bool { return status(leader)["notificationsTotal"] != "0" })
		require.Equal(t, "1", status(leader)["brokersAlive"])
		require.Equal(t, "2, epoch 2, 1 of 2 replicas in sync", status(leader)["master_b"])
		b.dead()
		s.eventually("nobody is left", func() bool { return status(leader)["brokerNamesWithoutMaster"] == "1" })
		require.NotEqual(t, "0", status(leader)["electionsFailedTotal"])
	})
}
