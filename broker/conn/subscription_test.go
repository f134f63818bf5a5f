package conn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/filter"
)

func TestTagSubscriptions(t *testing.T) {
	f := func(data body.SubscriptionData, tag string, want bool) {
		t.Helper()
		s, err := NewSubscription(&data)
		require.NoError(t, err)
		code := codec.TagsCode([]byte(tag))
		require.Equal(t, want, s.MatchQueueEntry(code), tag)
		require.Equal(t, want, s.Interested(code, nil), tag)
		require.True(t, s.IsTag())
		require.False(t, s.NeedsRecord())
	}
	of := func(expression string) body.SubscriptionData { return body.SubscriptionData{SubString: expression} }
	f(of("*"), "A", true)
	f(of("*"), "", true)
	f(of(""), "A", true)
	f(of("A"), "A", true)
	f(of("A"), "B", false)
	f(of("A"), "", false)
	f(of(" A || B "), "B", true)
	f(of("A || B"), "A || B", false)
	f(of("标签"), "标签", true)
	// client-go hashes UTF-8 bytes: its codes alone would match nothing
	goCodes := body.SubscriptionData{SubString: "标签", CodeSet: []int32{filter.TagHashGo("标签")}}
	f(goCodes, "标签", true)
	f(goCodes, "other", false)
	f(body.SubscriptionData{SubString: "A", CodeSet: []int32{filter.TagHash("Z")}}, "Z", true) // the client's word
	f(body.SubscriptionData{SubString: "anything", ClassFilterMode: true}, "A", true)
}

func TestSubscriptionForTools(t *testing.T) {
	s := sub(t, "T", "A||B||A", 7)
	require.Equal(t, body.ExpressionTag, s.Data.ExpressionType)
	require.Equal(t, []string{"A", "B"}, s.Data.TagsSet)
	require.NotEmpty(t, s.Data.CodeSet)
	s, err := NewSubscription(&body.SubscriptionData{Topic: "T", SubString: "A", CodeSet: []int32{65}})
	require.NoError(t, err)
	require.Equal(t, []int32{65}, s.Data.CodeSet, "the client's codes are shown as it sent them")
}

func TestSQLSubscriptions(t *testing.T) {
	s, err := NewSubscription(&body.SubscriptionData{SubString: "a > 5", ExpressionType: body.ExpressionSQL92})
	require.NoError(t, err)
	require.True(t, s.NeedsRecord())
	require.False(t, s.IsTag())
	require.True(t, s.MatchQueueEntry(0), "the entry alone decides nothing")
	match := func(props string) bool {
		p := []byte(strings.NewReplacer("=", "\x01", ";", "\x02").Replace(props))
		got := s.MatchRecord(&codec.Record{Properties: p})
		require.Equal(t, got, s.Interested(0, p))
		return got
	}
	require.True(t, match("a=7;"))
	require.False(t, match("a=3;"))
	require.False(t, match("b=7;"))
	require.False(t, match("a=abc;"), "what cannot be compared does not match")
	require.True(t, s.Interested(0, nil), "unknown properties may be interesting")
}

func TestBrokenSubscriptionsAreKeptWithTheirReason(t *testing.T) {
	for _, data := range []body.SubscriptionData{
		{SubString: "||"},
		{SubString: "a between 0 3", ExpressionType: body.ExpressionSQL92},
		{SubString: "", ExpressionType: body.ExpressionSQL92},
		{SubString: "a", ExpressionType: "XPATH"},
	} {
		s, err := NewSubscription(&data)
		require.Error(t, err, data.SubString)
		require.Equal(t, err, s.Err)
		require.False(t, s.MatchQueueEntry(codec.TagsCode([]byte("a"))) && !s.NeedsRecord())
		require.Equal(t, data.ExpressionType == "", s.IsTag())
	}
}

func TestSubscriptionCache(t *testing.T) {
	c := NewSubscriptionCache()
	get := func(expression, typ string) *Subscription {
		s, err := c.Get([]byte(expression), []byte(typ))
		require.NoError(t, err)
		return s
	}
	require.Same(t, get("*", "TAG"), get("", ""))
	require.Same(t, get("A || B", "TAG"), get("A || B", ""))
	require.Same(t, get("a = 1", "SQL92"), get("a = 1", "SQL92"))
	require.NotSame(t, get("a", "TAG"), get("a", "SQL92"))
	_, err := c.Get([]byte("||"), nil)
	require.ErrorIs(t, err, filter.ErrTagExpression)
	_, err = c.Get([]byte("a between 0 3"), []byte("SQL92"))
	require.ErrorIs(t, err, filter.ErrExpression)
	_, err = c.Get([]byte("a = 1"), []byte("sql"))
	require.ErrorIs(t, err, ErrExpressionType)

	expression, typ := []byte("A || B"), []byte("TAG")
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = c.Get(expression, typ) }))
}

func TestSubscriptionCacheIsBounded(t *testing.T) {
	c := NewSubscriptionCache()
	for i := range 2 * maxCached {
		_, err := c.Get(fmt.Append(nil, "tag", i), nil)
		require.NoError(t, err)
		require.LessOrEqual(t, len(*c.tags.table.Load()), maxCached)
	}
	long := strings.Repeat("x", 60<<10)
	for i := range 100 {
		_, err := c.Get(fmt.Append(nil, long, i), nil)
		require.NoError(t, err)
		require.LessOrEqual(t, c.tags.bytes, maxCachedBytes)
	}
}
