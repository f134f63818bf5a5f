package offset

import (
	"fmt"
	"io"
	"net/netip"
	"testing"

	"skylark/codec"
	"skylark/internal/vfs"
)

// BenchmarkCommit is a commit of a known queue, of one group or of as many as a busy broker has.
func BenchmarkCommit(b *testing.B) {
	for _, groups := range []int{1, 1000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			m := newManager(vfs.NewMem(), io.Discard)
			from := netip.MustParseAddrPort("127.0.0.1:1")
			names := make([]string, groups)
			for i := range names {
				names[i] = fmt.Sprintf("group%d", i)
				if err := m.Commit(from, names[i], "TopicTest", 3, 1); err != nil {
					b.Fatal(err)
				}
			}
			at := codec.QueueOffset(1)
			b.ReportAllocs()
			for b.Loop() {
				at++
				if err := m.Commit(from, names[int(at)%groups], "TopicTest", 3, at); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
