package member

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlaveActsWhileThereIsNoMaster(t *testing.T) {
	g := New(1)
	both := map[int64]string{0: "m:1", 1: "s:1", 2: "t:1"}
	c, ok := g.Seen(both)
	require.True(t, ok)
	require.Equal(t, Change{MinID: 0, MinAddr: "m:1", MasterBack: "m:1"}, c)
	require.Equal(t, 3, g.Alive())
	_, ok = g.Seen(both)
	require.False(t, ok)
	_, ok = g.Seen(nil)
	require.False(t, ok, "an empty answer says nothing")

	c, ok = g.Told(1, "s:1", "")
	require.True(t, ok)
	require.Equal(t, Change{MinID: 1, MinAddr: "s:1", Acting: true, MasterGone: true}, c)
	_, ok = g.Seen(map[int64]string{1: "s:1", 2: "t:1"})
	require.False(t, ok)
	require.Equal(t, 2, g.Alive())

	c, ok = g.Told(0, "m:2", "m:3")
	require.True(t, ok)
	require.Equal(t, Change{MinID: 0, MinAddr: "m:2", MasterBack: "m:2", HAAddr: "m:3"}, c)
	c, ok = g.Seen(map[int64]string{0: "n:1", 1: "s:1"})
	require.True(t, ok)
	require.Equal(t, Change{MinID: 0, MinAddr: "n:1", MasterGone: true, MasterBack: "n:1"}, c, "a master elsewhere")
}

func TestOthersDoNotAct(t *testing.T) {
	g := New(2)
	c, ok := g.Seen(map[int64]string{1: "s:1", 2: "t:1"})
	require.True(t, ok)
	require.False(t, c.Acting)
	require.Equal(t, []int64{1}, g.Others(map[int64]string{1: "s:1", 2: "t:1"}))
	c, ok = g.Seen(map[int64]string{2: "t:1"})
	require.True(t, ok)
	require.True(t, c.Acting)

	m := New(0)
	c, ok = m.Seen(map[int64]string{0: "m:1"})
	require.True(t, ok)
	require.False(t, c.Acting || c.MasterGone || c.MasterBack != "", "the master is no slave")
	require.Equal(t, 1, m.Alive())
}
