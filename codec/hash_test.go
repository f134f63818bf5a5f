package codec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJavaHash(t *testing.T) {
	f := func(s string, want int32) {
		t.Helper()
		require.Equal(t, want, JavaHash(s))
		require.Equal(t, want, JavaHashBytes([]byte(s)))
		require.EqualValues(t, want, TagsCode([]byte(s)))
	}
	f("", 0)
	f("A", 65)
	f("TagA", 2598919)
	f("a😀b中", 1793360527) // spec messages.md §16
	f("polygenelubricants", -2147483648)
	f("\xff", 0xFFFD)
	f("\xe4\xb8", 0xFFFD) // the start of one character: golden files of package filter have more
	f("\xff\xff", 31*0xFFFD+0xFFFD)
}
