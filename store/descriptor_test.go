package store

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
	"skylark/zerocopy"
)

// diskSegment puts messages on a disk and gets them as one segment.
func diskSegment(t *testing.T) (*MessageStore, *GetResult) {
	t.Helper()
	o := testOptions(vfs.OS, t.TempDir())
	o.MappedFileSizeCommitLog = 256 << 10
	s := openStore(t, o)
	for range 20 {
		mustPut(t, s, testMessage("Topic", 0, strings.Repeat("x", 5000)))
	}
	awaitDispatch(t, s)
	res := &GetResult{}
	s.Get(&GetRequest{Topic: "Topic", MaxMsgs: 32, AllowCold: true}, res)
	require.Equal(t, GetFound, res.Status)
	require.Len(t, res.Messages.Parts(), 1)
	return s, res
}

// TestSegmentsNameTheirFile: what a descriptor gives at the offset is what the mapping shows.
func TestSegmentsNameTheirFile(t *testing.T) {
	s, res := diskSegment(t)
	seg := res.Messages.Parts()[0]
	owner, ok := seg.Owner.(zerocopy.FileOwner)
	require.True(t, ok)
	require.Zero(t, openDescriptors.Load(), "opened when needed")
	f := func(b []byte) {
		t.Helper()
		fd, off := owner.File(b)
		require.GreaterOrEqual(t, fd, 0)
		got := make([]byte, len(b))
		file, err := os.Open(s.cl.files.first().path)
		require.NoError(t, err)
		defer file.Close()
		_, err = file.ReadAt(got, off)
		require.NoError(t, err)
		require.Equal(t, b, got)
	}
	f(seg.Bytes)
	f(seg.Bytes[777:])
	f(seg.Bytes[777:778])
	require.EqualValues(t, 1, openDescriptors.Load())
	fd, _ := owner.File(make([]byte, 10))
	require.Equal(t, -1, fd, "not of this file")
	res.Messages.Release()
	closeStore(t, s)
	require.Eventually(t, func() bool { return openDescriptors.Load() == 0 }, testWait, testTick)
}

// TestDescriptorOfDeletedFile: the descriptor lasts as long as the last reference; nothing is opened after the deletion.
func TestDescriptorOfDeletedFile(t *testing.T) {
	f := func(openedBefore bool) {
		t.Helper()
		s, res := diskSegment(t)
		seg := res.Messages.Parts()[0]
		mf := seg.Owner.(*mappedFile)
		if openedBefore {
			mf.File(seg.Bytes)
		}
		require.NoError(t, os.Remove(mf.path))
		fd, _ := mf.File(seg.Bytes)
		require.Equal(t, openedBefore, fd >= 0)
		fd, _ = mf.File(seg.Bytes)
		require.Equal(t, openedBefore, fd >= 0)
		res.Messages.Release()
		_ = s.Close() // the checkpoint is written, the log's file is gone
		require.Eventually(t, func() bool { return openDescriptors.Load() == 0 }, testWait, testTick)
	}
	f(true)
	f(false)
}

// TestNoDescriptorInMemory: a file in memory is sent from its mapping; so is one too many.
func TestNoDescriptorInMemory(t *testing.T) {
	s := openStore(t, testOptions(vfs.NewMem(), "/store"))
	mustPut(t, s, testMessage("Topic", 0, "x"))
	mf := s.cl.files.first()
	fd, _ := mf.File(mf.data()[:10])
	require.Equal(t, -1, fd)
	require.Zero(t, openDescriptors.Load())

	disk, res := diskSegment(t)
	openDescriptors.Add(maxDescriptors)
	seg := res.Messages.Parts()[0]
	fd, _ = seg.Owner.(*mappedFile).File(seg.Bytes)
	require.Equal(t, -1, fd)
	openDescriptors.Add(-maxDescriptors)
	res.Messages.Release()
	closeStore(t, disk)
}
