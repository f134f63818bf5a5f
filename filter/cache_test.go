package filter

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCache(t *testing.T) {
	c := NewCache(CacheOptions{MaxEntries: 3, MaxBytes: 400})
	compile := func(expression string) *SQL {
		t.Helper()
		q, err := c.Compile(expression)
		require.NoError(t, err)
		return q
	}
	a := compile("a = 1")
	require.Same(t, a, compile("a = 1"))
	_, err := c.Compile("a =")
	require.ErrorIs(t, err, ErrExpression)
	_, again := c.Compile("a =")
	require.Same(t, err, again, "errors are kept too")
	require.Equal(t, 2, c.Len())

	b := compile("b = 1")
	require.Same(t, a, compile("a = 1"))
	compile("c = 1") // drops "a =", which was not asked for since
	require.Equal(t, 3, c.Len())
	require.Same(t, a, compile("a = 1"))
	require.Same(t, b, compile("b = 1"))

	big := "a = '" + strings.Repeat("x", 90) + "'"
	for i := range 4 { // 388 bytes fit, with others they do not
		compile(strings.Replace(big, "x", fmt.Sprint(i), 1))
	}
	require.Equal(t, 3, c.Len())
	huge := "a = '" + strings.Repeat("x", 400) + "'"
	require.NotSame(t, compile(huge), compile(huge))
	require.Equal(t, 3, c.Len())
	require.LessOrEqual(t, c.bytes, 400)
}

func TestCacheConcurrently(t *testing.T) {
	c := NewCache(CacheOptions{MaxEntries: 10})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 500 {
				expression := fmt.Sprintf("a = %d", (i*7+g)%23)
				q, err := c.Compile(expression)
				if err != nil || q.String() != expression {
					t.Errorf("%s: %v", expression, err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 10, c.Len())
	require.Equal(t, 10, len(c.entries))
}
