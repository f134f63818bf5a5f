package codec

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestJavaHash(t *testing.T) {
	f := func(s string, want int32) {
		t.Helper()
		require.Equal(t, want, JavaHash(s))
		require.Equal(t, want, JavaHashBytes([]byte(s)))
		require.EqualValues(t, want, TagsCode([]byte(s)))
		for i := range len(s) {
			if utf8.RuneStart(s[i]) && utf8.ValidString(s) {
				require.Equal(t, want, JavaHashOn(JavaHashBytes([]byte(s[:i])), []byte(s[i:])))
			}
		}
	}
	f("", 0)
	f("A", 65)
	f("TagA", 2598919)
	f("a😀b中", 1793360527) // spec messages.md §16
	f("abcdeü😀fghijklmnop", JavaHash("abcdeü😀fghijklmnop"))
	f("polygenelubricants", -2147483648)
	f("\xff", 0xFFFD)
	f("\xe4\xb8", 0xFFFD) // the start of one character: golden files of package filter have more
	f("\xff\xff", 31*0xFFFD+0xFFFD)
}
