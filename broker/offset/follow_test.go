package offset

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/internal/vfs"
)

func followManager(t *testing.T) *Manager {
	t.Helper()
	fs := vfs.NewMem()
	require.NoError(t, vfs.MkdirAllSync(fs, "/config"))
	return New(Options{FS: fs, ConfigDir: "/config", Clock: clock.System, Log: slog.New(slog.DiscardHandler), VersionStep: 1})
}

func wrapper(counter int64, t Table) *body.ConsumerOffsetSerializeWrapper {
	return &body.ConsumerOffsetSerializeWrapper{DataVersion: &body.DataVersion{Counter: counter}, OffsetTable: t}
}

// Which offset counts: what the master said, unless consumers moved it here since.
func TestFollow(t *testing.T) {
	m := followManager(t)
	at := func(queueID int32) codec.QueueOffset { v, _ := m.Query("G", "T", queueID); return v }
	commit := func(queueID int32, v codec.QueueOffset) {
		require.NoError(t, m.Commit(netip.AddrPort{}, "G", "T", queueID, v))
	}
	first := Table{"T@G": {0: 10, 1: 20}, "U@G": {0: 5}, "rubbish": {0: 1}}
	require.Empty(t, m.Follow(nil, wrapper(7, first)))
	require.EqualValues(t, 10, at(0))
	require.EqualValues(t, 7, m.Wrapper().DataVersion.Counter)

	commit(0, 15) // here
	back := Table{"T@G": {0: 8, 1: 12}}
	require.Equal(t, []Ahead{{"G", "T", 0, 15}}, m.Follow(first, wrapper(8, back)))
	require.EqualValues(t, 15, at(0))
	require.EqualValues(t, 12, at(1), "moved back on the master")
	_, ok := m.Query("G", "U", 0)
	require.False(t, ok, "deleted on the master")
	require.Empty(t, m.Follow(back, wrapper(9, Table{"T@G": {0: 30, 1: 12}})))
	require.EqualValues(t, 30, at(0))
}

// After a restart the data version tells whether consumers worked here.
func TestFollowAfterRestart(t *testing.T) {
	m := followManager(t)
	require.Empty(t, m.Follow(nil, wrapper(7, Table{"T@G": {0: 10}})))
	require.Empty(t, m.Follow(nil, wrapper(8, Table{"T@G": {0: 4}})))
	require.NoError(t, m.Commit(netip.AddrPort{}, "G", "T", 0, 50))
	require.NoError(t, m.Persist())
	require.Len(t, m.Follow(nil, wrapper(8, Table{"T@G": {0: 4}})), 1)
	at, _ := m.Query("G", "T", 0)
	require.EqualValues(t, 50, at)
}

func TestTakeBack(t *testing.T) {
	m := followManager(t)
	require.Empty(t, m.Follow(nil, wrapper(7, Table{"T@G": {0: 10, 1: 10}})))
	require.Zero(t, m.TakeBack(wrapper(6, Table{"T@G": {0: 99}})), "an older one")
	require.Equal(t, 1, m.TakeBack(wrapper(7, Table{"T@G": {0: 99, 1: 3}})))
	at, _ := m.Query("G", "T", 1)
	require.EqualValues(t, 10, at, "never smaller")
}
