package codec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPropertyRules has the rules of spec messages.md §3.
func TestPropertyRules(t *testing.T) {
	f := func(props string, want map[string]string) {
		t.Helper()
		require.Equal(t, want, ParseProperties([]byte(props)))
		for name, value := range want {
			got, ok := LookupProperty([]byte(props), name)
			require.True(t, ok)
			require.Equal(t, value, string(got))
		}
	}
	f("", map[string]string{})
	f("a\x01b\x02", map[string]string{"a": "b"})
	f("a\x01b", map[string]string{"a": "b"})
	f("a\x01b\x02c\x01d", map[string]string{"a": "b", "c": "d"})
	f("\x02\x02a\x01b\x02\x02", map[string]string{"a": "b"})
	f("a\x01\x02b\x01c\x02", map[string]string{"b": "c"})
	f("\x01v\x02b\x01c\x02", map[string]string{"b": "c"})
	f("novalue\x02b\x01c\x02", map[string]string{"b": "c"})
	f("a\x011\x02a\x012\x02", map[string]string{"a": "2"})
	f("a\x01b\x01c\x02", map[string]string{"a": "b\x01c"})
	f("ü\x01中\x02", map[string]string{"ü": "中"})

	_, ok := LookupProperty([]byte("ab\x01c\x02"), "a")
	require.False(t, ok)
	v, ok := LookupProperty([]byte("a\x011\x02a\x01\x02"), "a")
	require.True(t, ok)
	require.Equal(t, "1", string(v), "an empty value does not win")
}

func TestAppendProperty(t *testing.T) {
	p := AppendProperty(nil, "a", "1")
	p = AppendProperty(p, "b", []byte("2"))
	require.Equal(t, "a\x011\x02b\x012\x02", string(p))
	require.Equal(t, "a\x011\x02b\x012\x02", string(AppendProperty([]byte("a\x011"), "b", "2")),
		"a missing final separator is added")
	require.Equal(t, "x", string(AppendProperty([]byte("x"), "", "1")))
	require.Equal(t, "x", string(AppendProperty([]byte("x"), "a", "")))
}

func TestRemoveProperty(t *testing.T) {
	f := func(props, want string, names ...string) {
		t.Helper()
		require.Equal(t, want, string(RemoveProperty(nil, []byte(props), names...)))
		b := []byte(props + "tail")
		in := b[:len(props)]
		got := RemoveProperty(in[:0:len(in)], in, names...)
		require.Equal(t, want, string(got), "in place")
		require.Equal(t, "tail", string(b[len(props):]))
	}
	f("a\x011\x02b\x012\x02c\x013\x02", "a\x011\x02c\x013\x02", "b")
	f("a\x011\x02b\x012\x02c\x013\x02", "", "b", "a", "c")
	f("a\x011\x02b\x012", "b\x012\x02", "a")
	f("a\x011", "a\x011\x02", "x")
	f("a\x011\x02a\x012\x02", "", "a")
	f("junk\x02a\x01\x02b\x012\x02", "b\x012\x02")
	f("", "", "a")
}

func TestEachProperty(t *testing.T) {
	var names []string
	for name := range EachProperty([]byte("a\x011\x02b\x012\x02a\x013\x02")) {
		names = append(names, string(name))
		if len(names) == 2 {
			break
		}
	}
	require.Equal(t, []string{"a", "b"}, names)
}

func TestEncodeProperties(t *testing.T) {
	m := map[string]string{"b": "2", "a": "1", "c": "", "": "x"}
	require.Equal(t, "a\x011\x02b\x012\x02", string(EncodeProperties(m)))
	require.Empty(t, EncodeProperties(nil))
}
