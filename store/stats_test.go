package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStatsRates(t *testing.T) {
	var s storeStats
	at := time.Unix(1_000_000, 0)
	put := func(x statsSample) int64 { return x.put }
	require.Equal(t, "0 0 0", s.rates(at, put))
	for range 70 { // 700 s, 100 messages each 10 s
		s.sample(at)
		s.sample(at.Add(time.Second)) // too early
		s.put(100, 1000, 0, 1)
		at = at.Add(10 * time.Second)
	}
	require.Equal(t, "10 10 10", s.rates(at, put))
	require.Len(t, s.samples, maxStatsSamples)
	s.put(1000, 1000, 0, 1)
	require.Equal(t, "110 26.666666666666668 11.666666666666666", s.rates(at, put))
}

func TestStatsLatency(t *testing.T) {
	var s storeStats
	require.Zero(t, s.latency(0.99))
	for range 950 {
		s.put(1, 10, 0, 1)
	}
	s.put(1, 10, 3, 8)
	for range 48 {
		s.put(1, 10, 3, 1)
	}
	s.put(1, 10, 700, 1)
	require.Zero(t, s.latency(0.9))
	require.EqualValues(t, 4, s.latency(0.99))
	require.EqualValues(t, 1024, s.latency(0.9999))
	require.EqualValues(t, 700, s.putMaxMillis.Load())
	require.Contains(t, s.distribution(), "[<=0ms]:943 [0~10ms]:56 ")
	require.Contains(t, s.distribution(), "[500ms~1s]:1 ")
}

func TestBytesText(t *testing.T) {
	f := func(n int64, want string) {
		t.Helper()
		require.Equal(t, want, bytesText(n))
	}
	f(0, "0 B")
	f(1023, "1023 B")
	f(1024, "1.0 KiB")
	f(1536<<20, "1.5 GiB")
	f(1<<62, "4.0 EiB")
}

func TestUptime(t *testing.T) {
	s := storeStats{startMillis: 1000}
	require.Equal(t, "[ 1 days, 1 hours, 1 minutes, 1 seconds ]", s.uptime(1000+(86400+3600+60+1)*1000))
}
