package ha

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/store"
)

// setOf is a master 1 of a set, at 100 s, with slaves that are connected and have everything, and a log of 1000 bytes.
func setOf(set []int64, slaves ...int64) *SyncSet {
	s := &SyncSet{}
	s.Lead(1, set, 5, 0, 100_000)
	for _, id := range slaves {
		s.Connected(id, false, 100_000)
		s.Acked(id, 1000, 1000, 100_001)
	}
	return s
}

func tick(s *SyncSet, end store.PhyOffset, now int64) []int64 { return s.Tick(end, now, 15_000) }

func TestSyncSetGrows(t *testing.T) {
	s := setOf([]int64{1})
	require.True(t, s.Alone())
	require.EqualValues(t, 1000, s.Confirmed(1000))
	s.Connected(2, false, 100_000)
	require.Nil(t, tick(s, 1000, 100_001), "it has said nothing yet")
	require.True(t, s.Alone())
	s.Acked(2, 400, 1000, 100_010)
	require.Nil(t, tick(s, 1000, 100_020), "it is behind")
	require.True(t, s.Acked(2, 1000, 1100, 100_030), "it has what there was when it spoke last")
	require.Nil(t, tick(s, 1100, 100_031), "its barrier is the end of the log")
	require.False(t, s.Alone())
	require.EqualValues(t, 1100, s.Confirmed(1200), "what comes now needs it")
	require.True(t, s.Acked(2, 1100, 1200, 100_040))
	require.Equal(t, []int64{1, 2}, tick(s, 1200, 100_041))
	require.Equal(t, 1, s.InSync(), "it is not in yet")
	require.EqualValues(t, -1, s.Copies(1))
	require.Nil(t, tick(s, 1200, 100_042), "asked once")
	s.Word([]int64{1, 2}, 6)
	require.Equal(t, 2, s.InSync())
	require.EqualValues(t, 1100, s.Copies(1))
	require.Nil(t, tick(s, 1200, 100_043))
}

// Under load a slave never has everything, and comes in all the same.
func TestSyncSetGrowsUnderLoad(t *testing.T) {
	s := setOf([]int64{1})
	s.Connected(2, false, 100_000)
	now, end := int64(100_000), store.PhyOffset(1000)
	for range 20 {
		now++
		end += 100
		s.Acked(2, end-50, end, now)
		if ask := tick(s, end, now); ask != nil {
			require.Equal(t, []int64{1, 2}, ask)
			return
		}
	}
	require.Fail(t, "it is kept out")
}

// A candidate that does not come to its barrier holds nobody up for long.
func TestSyncSetCandidateGivesUp(t *testing.T) {
	s := setOf([]int64{1})
	s.Connected(2, false, 100_000)
	s.Acked(2, 1000, 1000, 100_001)
	s.Acked(2, 1000, 1100, 100_002)
	require.Nil(t, tick(s, 1100, 100_003))
	require.False(t, s.Alone())
	require.Nil(t, tick(s, 2000, 100_003+joinMillis+1))
	require.True(t, s.Alone())
	require.EqualValues(t, 2000, s.Confirmed(2000))
}

// apache/rocketmq#5663: a slave was asked for, the answer is lost, and then somebody else is asked out or in. The controller
// may have taken it in at any time.
func TestSyncSetUnknownAnswers(t *testing.T) {
	s := setOf([]int64{1}, 2, 3)
	require.Equal(t, []int64{1, 2, 3}, tick(s, 1000, 100_010))
	s.Closed(3)
	require.EqualValues(t, 1000, s.Confirmed(1000))
	s.Acked(2, 1500, 1500, 100_020)
	require.EqualValues(t, 1000, s.Confirmed(1500), "3 may be in the set")
	require.Nil(t, tick(s, 1500, 100_030))
	require.Equal(t, []int64{1, 2}, tick(s, 1500, 104_000), "asked again, without 3")
	require.EqualValues(t, 1000, s.Confirmed(1500), "3 may still be in the set")
	require.Equal(t, 1, s.InSync(), "2 may be out")
	s.Word([]int64{1}, 5)
	require.EqualValues(t, 1000, s.Confirmed(1500), "an old answer")
	s.Refused(104_010)
	require.EqualValues(t, 1000, s.Confirmed(1500), "of the first request nobody knows")
	s.Word([]int64{1, 2}, 6)
	require.EqualValues(t, 1500, s.Confirmed(1500))
	s.Closed(2)
	require.Equal(t, []int64{1}, tick(s, 1500, 106_000))
	s.Word([]int64{1}, 7)
	require.EqualValues(t, 2000, s.Confirmed(2000))
}

// One request that is refused is over; it is not made again at once. Of two, the first counts for as long as it may travel.
func TestSyncSetRefused(t *testing.T) {
	s := setOf([]int64{1}, 2)
	require.Equal(t, []int64{1, 2}, tick(s, 1000, 100_010))
	s.Refused(100_020)
	require.True(t, s.Alone())
	require.EqualValues(t, 1100, s.Confirmed(1100))
	s.Acked(2, 1100, 1100, 100_030)
	require.Nil(t, tick(s, 1100, 100_040))
	require.Equal(t, []int64{1, 2}, tick(s, 1100, 100_020+refusedMillis))
	require.Equal(t, []int64{1, 2}, tick(s, 1100, 105_000), "no answer: once more")
	s.Refused(105_010)
	require.False(t, s.Alone())
	s.Closed(2)
	require.Equal(t, []int64{1, 2}, tick(s, 1100, 109_000), "nothing has to change, but what became of the request?")
	s.Refused(109_010)
	require.False(t, s.Alone())
	require.NotNil(t, tick(s, 1100, 113_000))
	s.Refused(109_000 + unknownAskMillis + 1)
	require.True(t, s.Alone())
}

func TestSyncSetShrinks(t *testing.T) {
	f := func(what func(s *SyncSet), now int64, want []int64) {
		t.Helper()
		s := setOf([]int64{1, 2}, 2)
		what(s)
		require.Equal(t, want, tick(s, 2000, now))
	}
	alone := []int64{1}
	f(func(s *SyncSet) {}, 115_000, nil)
	f(func(s *SyncSet) {}, 115_002, alone)
	f(func(s *SyncSet) { s.Acked(2, 2000, 2000, 110_000) }, 200_000, nil) // it has everything
	f(func(s *SyncSet) { s.Closed(2) }, 100_002, alone)
	f(func(s *SyncSet) { s.Connected(2, true, 100_002) }, 100_003, alone)
	f(func(s *SyncSet) { s.Leave() }, 200_000, nil)
	// members that a new master has not seen get a moment
	s := setOf([]int64{1, 2})
	require.Nil(t, tick(s, 1000, 102_000))
	require.Equal(t, alone, tick(s, 1000, 104_000))
	require.Zero(t, s.Confirmed(1000))
}

func TestSyncSetCopies(t *testing.T) {
	s := setOf([]int64{1, 2, 3, 4}, 2, 3)
	s.Acked(2, 1200, 1200, 100_010)
	require.EqualValues(t, 1200, s.Copies(1))
	require.EqualValues(t, 1000, s.Copies(2))
	require.EqualValues(t, -1, s.Copies(3), "4 is not connected")
	require.Zero(t, s.Confirmed(1200))
	s.Connected(5, false, 100_010)
	s.Acked(5, 5000, 5000, 100_010)
	require.EqualValues(t, 1200, s.Copies(1), "5 is none of the set")
	s.Leave()
	require.EqualValues(t, -1, s.Copies(1))
	require.Zero(t, s.Confirmed(5000))
}

// A slave that left is forgotten; strangers do not pile up.
func TestSyncSetForgets(t *testing.T) {
	s := setOf([]int64{1})
	for id := range int64(1000) {
		s.Connected(id+10, false, 100_000)
		s.Closed(id + 10)
	}
	require.Empty(t, s.slaves)
}
