package namesrv

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"skylark/codec"
	"skylark/codec/body"
)

// Whatever is registered, unregistered, closed and expired, in any order: the tables agree with each other,
// cached routes are those of the tables, an address belongs to one broker, and the end of a connection
// touches only what it registered last.
func TestRandomOperations(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newScript()
		owner := map[string]uint64{} // what the last accepted registration of an address came on
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			s.randomStep(rt, owner)
			checkInvariants(rt, s.m)
		}
	})
}

func (s *script) randomStep(rt *rapid.T, owner map[string]uint64) {
	drawInt := func(name string, limit int) int { return rapid.IntRange(0, limit-1).Draw(rt, name) }
	id := identity([]string{"C", "D"}[drawInt("cluster", 2)], []string{"a", "b", "c"}[drawInt("name", 3)],
		fmt.Sprintf("h%d:1", drawInt("addr", 4)), int64(drawInt("id", 3)))
	switch drawInt("op", 8) {
	case 0:
		s.m.Unregister(id)
	case 1:
		s.randomClose(rt, owner, uint64(drawInt("conn", 4)))
	case 2:
		s.now = s.now.Add(time.Duration(drawInt("seconds", 100)) * time.Second)
		next, _ := s.m.Expire(s.now)
		if s.m.Brokers() > 0 {
			require.False(rt, next.Before(s.now))
		} else {
			require.True(rt, next.IsZero())
		}
	case 3:
		s.m.DeleteTopic(fmt.Sprintf("T%d", drawInt("topic", 3)), "")
		s.m.WipeWritePerm(id.Name)
		s.settings.SupportActingMaster = !s.settings.SupportActingMaster
	default:
		r := &Registration{BrokerIdentity: id, Conn: uint64(drawInt("conn", 4)),
			Topics: map[string]*body.TopicConfig{}}
		r.DataVersion.StateVersion, r.DataVersion.Counter = int64(drawInt("state", 2)), int64(drawInt("counter", 3))
		if acting := drawInt("acting", 3); acting > 0 {
			on := acting == 2
			r.ActingMaster = &on
		}
		for i := range drawInt("topics", 4) {
			r.Topics[fmt.Sprintf("T%d", i)] = &body.TopicConfig{TopicName: fmt.Sprintf("T%d", i),
				Perm: codec.PermRead | codec.PermWrite}
		}
		res, deadline, _ := s.m.Register(r, s.now)
		if res.Status == RegisterOK {
			require.True(rt, deadline.After(s.now))
			require.Equal(rt, id, s.m.brokerLiveTable[id.Addr].BrokerIdentity)
			owner[id.Addr] = r.Conn
		} else if l := s.m.brokerLiveTable[id.Addr]; l != nil {
			require.Equal(rt, id, l.BrokerIdentity, "a refused address keeps at most what it asked for")
		}
	}
}

func (s *script) randomClose(rt *rapid.T, owner map[string]uint64, conn uint64) {
	before := map[string]bool{}
	for addr := range s.m.brokerLiveTable {
		before[addr] = true
	}
	s.m.ConnectionClosed(conn)
	for addr := range before {
		_, still := s.m.brokerLiveTable[addr]
		require.Equal(rt, owner[addr] != conn, still, "%s was registered on %d", addr, owner[addr])
	}
}
