package consumerfilter

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/filter"
)

// BenchmarkMatchProperties judges a message by the properties that a client sends with it.
func BenchmarkMatchProperties(b *testing.B) {
	f := func(name, expression, price string, want bool) {
		b.Run(name, func(b *testing.B) {
			sql, err := filter.Compile(expression)
			require.NoError(b, err)
			var m MessageFilter
			m.ForExpression(sql)
			props := []byte("price\x01" + price + "\x02WAIT\x01true\x02UNIQ_KEY\x017F00000100005C6C0000000000111D54\x02")
			require.Equal(b, want, m.MatchProperties(props))
			b.ReportAllocs()
			for b.Loop() {
				m.MatchProperties(props)
			}
		})
	}
	f("between/left out", "price BETWEEN 85 AND 95 AND price IS NOT NULL", "40", false)
	f("between/fits", "price BETWEEN 85 AND 95 AND price IS NOT NULL", "90", true)
	f("two", "price > 85 AND price < 95", "90", true)
	f("text", "region = 'x' OR price = '40'", "40", true)
}
