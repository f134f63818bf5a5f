//go:build !race

package store

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

// TestNoRaceAppendAllocatesNothing: the race detector makes sync.Pool lose buffers on purpose.
func TestNoRaceAppendAllocatesNothing(t *testing.T) {
	o := testOptions(vfs.NewMem(), "/store")
	o.MappedFileSizeCommitLog = 8 << 20
	o.MappedFileSizeConsumeQueue = 300000 * cqEntryBytes
	s := openStore(t, o)
	m := testMessage("Topic", 1, strings.Repeat("x", 1024))
	m.Properties = []byte("KEYS\x01k\x02")
	require.Equal(t, PutOK, s.Append(m).Status)
	allocs := testing.AllocsPerRun(1000, func() {
		if r := s.Append(m); r.Status != PutOK {
			t.Error(r.Err)
		}
	})
	require.Less(t, allocs, 0.5, "the services behind the log allocate a little now and then")
}

// TestNoRaceTurnAllocatesNothing: a turn of 32 messages, put and dispatched.
func TestNoRaceTurnAllocatesNothing(t *testing.T) {
	o := testOptions(vfs.NewMem(), "/store")
	o.MappedFileSizeCommitLog = 64 << 20
	o.MappedFileSizeConsumeQueue = 300000 * cqEntryBytes
	o.FlushIntervalCommitLog, o.FlushIntervalConsumeQueue, o.MessageIndexEnable = time.Hour, time.Hour, false
	s := openStore(t, o)
	m := testMessage("Topic", 1, strings.Repeat("x", 1024))
	m.Properties = []byte("KEYS\x01k\x02")
	var turn Turn
	run := func() {
		turn.Reset(s)
		for range 32 {
			if r := turn.Add(m); r.Status != PutOK {
				t.Error(r.Err)
			}
		}
		turn.Commit()
		s.Dispatch()
		if r := turn.Result(31); r.Status != PutOK {
			t.Error(r.Err)
		}
	}
	run()
	awaitDispatch(t, s)
	require.Less(t, testing.AllocsPerRun(1000, run), 2.0, "the services behind the log allocate a little now and then")
}
