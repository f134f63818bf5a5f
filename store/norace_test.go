//go:build !race

package store

import (
	"strings"
	"testing"

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
