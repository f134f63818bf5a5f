package codec

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every number that a client counts to keeps the header on the short way; what is no int32 is for the tolerant scanner.
func TestCompactNumbers(t *testing.T) {
	f := func(number string, want int32, ok bool) {
		t.Helper()
		var c Command
		header := fmt.Sprintf(`{"code":310,"extFields":{"a":"g","b":"T"},"flag":0,"opaque":%s,"version":401}`, number)
		require.Equal(t, ok, c.decodeCompact([]byte(header)), number)
		if ok {
			require.Equal(t, want, c.Opaque)
		}
	}
	f("0", 0, true)
	f("-1", -1, true)
	f("999999999", 999_999_999, true)
	f("1000000001", 1_000_000_001, true)
	f("2147483647", math.MaxInt32, true)
	f("-2147483648", math.MinInt32, true)
	f("2147483648", 0, false)
	f("-2147483649", 0, false)
	f("9999999999", 0, false)
	f("12345678901", 0, false)
	f("", 0, false)
	f("-", 0, false)
	f("1.5", 0, false)
	f(`"1"`, 0, false)
}
