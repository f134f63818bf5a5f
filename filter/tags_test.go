package filter

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestTagHash(t *testing.T) {
	f := func(tag string, java, goClient int32) {
		t.Helper()
		require.Equal(t, java, TagHash(tag))
		require.Equal(t, java, TagHashBytes([]byte(tag)))
		require.Equal(t, goClient, TagHashGo(tag))
	}
	f("", 0, 0)
	f("A", 65, 65)
	f("TagA", 2598919, 2598919)
	f("a😀b中", 1793360527, TagHashGo("a😀b中")) // messages.md section 16
	f("é", 233, 31*0xC3+0xA9)
	f("polygenelubricants", -2147483648, -2147483648)
}

func TestTagHashDoesNotAllocate(t *testing.T) {
	tag := []byte("a😀b中\xff")
	require.Zero(t, testing.AllocsPerRun(100, func() { TagHashBytes(tag) }))
	text := string(tag)
	require.Zero(t, testing.AllocsPerRun(100, func() { TagHash(text) }))
}

func TestParseTags(t *testing.T) {
	f := func(sub string, all bool, joined string) {
		t.Helper()
		tags, err := ParseTags(sub)
		require.NoError(t, err)
		require.Equal(t, all, tags.All())
		require.Equal(t, joined, tags.SubString())
	}
	f("", true, "*")
	f("*", true, "*")
	f(" * ", false, "*")
	f(" ", false, "")
	f("|| ||", false, "")
	f("B||A || B", false, "B || A")
	f("A|||B", false, "A || |B")
	f("A\x00||\u00a0B", false, "A || \u00a0B")

	var many []string
	for i := range 3 * linearTagsMax {
		many = append(many, "t"+strconv.Itoa(i))
	}
	f(strings.Join(append(many, many...), "||"), false, strings.Join(many, " || "))

	bad := func(sub, reason string) {
		t.Helper()
		_, err := ParseTags(sub)
		require.ErrorIs(t, err, ErrTagExpression)
		require.ErrorContains(t, err, reason)
	}
	bad("||", "separators only")
	bad(strings.Repeat("|", 1000), "separators only")
	bad(strings.Repeat("x", MaxTagExpressionBytes+1), "131073 bytes, the limit is 131072")
}

func TestTagsMatch(t *testing.T) {
	f := func(sub, tag string, code, text bool) {
		t.Helper()
		tags, err := ParseTags(sub)
		require.NoError(t, err)
		require.Equal(t, code, tags.MatchCode(int64(TagHash(tag))))
		require.Equal(t, text, tags.MatchTag([]byte(tag)))
	}
	f("*", "A", true, true)
	f("*", "", true, true)
	f("A || B", "B", true, true)
	f("A || B", "C", false, false)
	f("A || B", "", false, false)
	f("Aa", "BB", true, false) // equal hashes
	f(" ", "", false, false)
	f("* || A", "C", false, false)
	f("日本", "日本", true, true)
	many := strings.Repeat("Aa||", 3) + "a||b||c||d||e||f||g||h||i||j||polygenelubricants"
	f(many, "j", true, true)
	f(many, "BB", true, false)
	f(many, "polygenelubricants", true, true)
	f(many, "k", false, false)

	tags, err := ParseTags("A")
	require.NoError(t, err)
	require.True(t, tags.MatchCode(-1<<32|65), "only the low 32 bits count")
	require.False(t, Tags{}.MatchCode(0))
	require.False(t, Tags{}.MatchTag(nil))
}

// A Go client hashes the UTF-8 bytes, so its codes and Java's differ outside ASCII (client-quirks.md item
// 12).
func TestTagsWithGoCodes(t *testing.T) {
	tags, err := ParseTags("A || 标签")
	require.NoError(t, err)
	both := tags.WithGoCodes()
	require.Len(t, both.Codes(), 3, "A has one code for both")
	require.False(t, tags.MatchCode(int64(TagHashGo("标签"))))
	require.True(t, both.MatchCode(int64(TagHashGo("标签"))))
	require.True(t, both.MatchCode(int64(TagHash("标签"))))
	require.Len(t, tags.Codes(), 2, "the original is unchanged")
	require.True(t, tags.WithCodes(7, -7, 7).MatchCode(-7))
	require.Equal(t, tags.Tags(), both.Tags())
}

// FuzzTagHash: any bytes hash to the same as string and as bytes, and valid UTF-8 to Java's formula over
// UTF-16 units.
func FuzzTagHash(f *testing.F) {
	for _, seed := range []string{"", "TagA", "a😀b中", "\xe4\xb8", "\xed\xa0\x80", "\xf0\x9f\x98", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, tag string) {
		got := TagHash(tag)
		require.Equal(t, got, TagHashBytes([]byte(tag)))
		if !utf8.ValidString(tag) {
			return
		}
		var want int32
		for _, unit := range utf16.Encode([]rune(tag)) {
			want = 31*want + int32(unit)
		}
		require.Equal(t, want, got)
	})
}

// FuzzParseTags: no panic; every tag is trimmed, not empty, there once, matches by text and by code; and
// the joined tags parse to the same set.
func FuzzParseTags(f *testing.F) {
	for _, seed := range []string{
		"", "*", " ", "A", "A || B", "||", "|||", "A||A", "* || x", "\t日本\x00||\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sub string) {
		tags, err := ParseTags(sub)
		if err != nil {
			require.ErrorIs(t, err, ErrTagExpression)
			return
		}
		require.Equal(t, sub == "" || sub == SubAll, tags.All())
		require.LessOrEqual(t, len(tags.Codes()), len(tags.Tags()))
		seen := map[string]bool{}
		for _, tag := range tags.Tags() {
			require.NotEmpty(t, tag)
			require.False(t, seen[tag])
			require.False(t, tag[0] <= ' ' || tag[len(tag)-1] <= ' ')
			seen[tag] = true
			require.True(t, tags.MatchTag([]byte(tag)))
			require.True(t, tags.MatchCode(int64(TagHash(tag))))
		}
		joined := tags.SubString()
		if joined != "" && joined != SubAll && len(joined) <= MaxTagExpressionBytes {
			again, err := ParseTags(joined)
			require.NoError(t, err)
			require.Equal(t, tags.Codes(), again.Codes())
		}
	})
}
