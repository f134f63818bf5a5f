package ha

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/clock"
	"skylark/store"
)

func TestGroupTransferAnswersByOffset(t *testing.T) {
	acks := map[int]store.PhyOffset{1: 100, 2: 50}
	g := newGroupTransferService(clock.System, func(n int) store.PhyOffset { return acks[n] })
	var answered []int
	wait := func(id int, end store.PhyOffset, slaves int) bool {
		return g.wait(end, slaves, time.Minute, func(s store.PutStatus) {
			require.Equal(t, store.PutOK, s)
			answered = append(answered, id)
		})
	}
	require.True(t, wait(0, 100, 1))
	require.True(t, wait(0, 50, 2))
	require.False(t, wait(3, 300, 1))
	require.False(t, wait(1, 150, 1))
	require.False(t, wait(2, 200, 1))
	require.Equal(t, 3, g.Waiting())
	acks[1] = 149
	g.advance()
	require.Empty(t, answered)
	acks[1] = 250
	g.advance()
	require.Equal(t, []int{1, 2}, answered)
	require.False(t, wait(4, 260, 2), "another number of slaves")
	acks[2] = 260
	g.advance()
	require.Equal(t, []int{1, 2, 4}, answered)
	acks[1] = 300
	g.advance()
	require.Equal(t, []int{1, 2, 4, 3}, answered)
	require.Zero(t, g.Waiting())
	g.close()
}

func TestGroupTransferTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroupTransferService(clock.System, func(int) store.PhyOffset { return 0 })
		began := time.Now()
		got := make(chan time.Duration, 2)
		done := func(s store.PutStatus) {
			require.Equal(t, store.FlushSlaveTimeout, s)
			got <- time.Since(began)
		}
		require.False(t, g.wait(10, 1, 3*time.Second, done))
		require.False(t, g.wait(5, 1, time.Second, done))
		require.Equal(t, time.Second, <-got)
		require.Equal(t, 3*time.Second, <-got)
		require.False(t, g.wait(10, 1, time.Hour, done))
		g.close()
		<-got
		require.False(t, g.wait(10, 1, time.Hour, done), "closed")
		<-got
	})
}
