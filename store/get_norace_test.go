//go:build !race

package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

// TestNoRaceGetAllocatesNothing: sync.Pool forgets on purpose under the race detector.
func TestNoRaceGetAllocatesNothing(t *testing.T) {
	s := openStore(t, testOptions(vfs.NewMem(), "/store"))
	for i := range 64 {
		mustPut(t, s, testMessage("Topic", int32(i%2), fmt.Sprint(i)))
	}
	awaitDispatch(t, s)
	res := &GetResult{}
	seen := 0
	f := func(filter MessageFilter) {
		t.Helper()
		req := &GetRequest{Topic: "Topic", MaxMsgs: 32, Filter: filter}
		get := func() {
			s.Get(req, res)
			if res.Count != 32 {
				t.Errorf("%d messages", res.Count)
			}
			res.Messages.Release()
		}
		get()
		require.Zero(t, testing.AllocsPerRun(100, get))
	}
	f(nil)
	f(matchAll{&seen})
}

// A filter looks at all records, or, where units rule them out, at those that fit.
func TestNoRaceFilteredGetAllocatesNothing(t *testing.T) {
	f := func(change func(o *Options), records int) {
		t.Helper()
		o := testOptions(vfs.NewMem(), "/store")
		o.MappedFileSizeConsumeQueue = 1000 * cqEntryBytes
		change(&o)
		s := openStore(t, o)
		putTenths(t, s, 1, 320, 10)
		res, filter := &GetResult{}, &tenth{}
		req := &GetRequest{Topic: "Topic", MaxMsgs: 32, Filter: filter}
		get := func() {
			filter.records = 0
			s.Get(req, res)
			if res.Count != 32 || filter.records != records {
				t.Errorf("%d messages, %d records looked at", res.Count, filter.records)
			}
			res.Messages.Release()
		}
		get()
		require.Zero(t, testing.AllocsPerRun(100, get))
	}
	f(func(*Options) {}, 311)
	f(withTenths, 32)
}
