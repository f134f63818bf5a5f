package transaction

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

func TestWindow(t *testing.T) {
	var w window[int]
	w.reset(10)
	require.Nil(t, w.at(10))
	require.Nil(t, w.grow(9))
	*w.grow(12) = 3
	require.Equal(t, 0, *w.at(10))
	require.Equal(t, 3, *w.at(12))
	require.EqualValues(t, 13, w.end())
	positive := func(n int) bool { return n > 0 }
	w.advance(positive, 0)
	require.EqualValues(t, 10, w.front)
	*w.at(10) = 1
	w.advance(positive, 0)
	require.EqualValues(t, 11, w.front)
	*w.at(11) = 1
	w.advance(positive, 2)
	require.EqualValues(t, 13, w.front)
	require.EqualValues(t, 13, w.end())
	require.Nil(t, w.at(10))
	require.Equal(t, 1, *w.at(11))
	w.advance(positive, 0)
	require.Nil(t, w.at(12))
	for i := range int64(100000) {
		*w.grow(13 + i) = 1
		if i%100 == 50 {
			w.advance(positive, 10)
		}
	}
	w.advance(positive, 10)
	require.EqualValues(t, 100013, w.front)
	require.EqualValues(t, 100003, w.base)
	require.Less(t, cap(w.items), 10000, "memory is given back")
}

func TestOpBodies(t *testing.T) {
	f := func(body string, wantBad int, want ...int64) {
		t.Helper()
		var got []int64
		require.Equal(t, wantBad, parseOp([]byte(body), func(at int64) { got = append(got, at) }))
		require.Equal(t, want, got)
	}
	f("5", 0, 5)
	f("5,", 0, 5)
	f("5,7,", 0, 5, 7)
	f("5,7", 0, 5, 7)
	f("", 1)
	f(",", 1)
	f("5,,7,", 1, 5, 7)
	f("-1,x, 3,9223372036854775808,9223372036854775807,", 4, 9223372036854775807)
	require.Equal(t, "5", string(appendOp(nil, []int64{5})))
	require.Equal(t, "5,60,", string(appendOp(nil, []int64{5, 60})))
	require.Equal(t, 2, opBytes(5))
	require.Equal(t, 4, opBytes(100))
}

func TestRewrite(t *testing.T) {
	f := func(props, want map[string]string) {
		t.Helper()
		buf := append(make([]byte, 0, 1000), codec.EncodeProperties(props)...)
		m := &codec.Message{Topic: "T", QueueID: 4, SysFlag: codec.SysFlagTransactionPrepared | codec.SysFlagCompressed,
			Properties: buf}
		Rewrite(m)
		require.Equal(t, want, codec.ParseProperties(m.Properties))
		require.Equal(t, codec.HalfTopic, m.Topic)
		require.Zero(t, m.QueueID)
		require.Equal(t, codec.SysFlagCompressed, m.SysFlag)
	}
	f(map[string]string{"UNIQ_KEY": "u", "TRAN_MSG": "true", "k": "v"},
		map[string]string{"UNIQ_KEY": "u", "TRAN_MSG": "true", "k": "v", "__transactionId__": "u", "REAL_TOPIC": "T",
			"REAL_QID": "4"})
	f(map[string]string{"UNIQ_KEY": "u", "REAL_TOPIC": "x", "REAL_QID": "9", "TRANSACTION_CHECK_TIMES": "14",
		"TRAN_PREPARED_QUEUE_OFFSET": "0", "__transactionId__": "y"},
		map[string]string{"UNIQ_KEY": "u", "TRAN_MSG": "true", "__transactionId__": "u", "REAL_TOPIC": "T",
			"REAL_QID": "4"})
}
