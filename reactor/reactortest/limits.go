package reactortest

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/reactor"
)

func testMaxConnections(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{MaxConnections: 3})
	var in []*client
	for range 3 {
		c := r.dial()
		c.call("echo", nil)
		in = append(in, c)
	}
	for range 5 {
		c := r.dial()
		c.expectEnd()
	}
	require.Equal(t, 3, r.engine.Connections())
	require.True(t, r.log.contains("too many"))
	_ = in[0].nc.Close()
	eventually(t, func() bool { return r.engine.Connections() == 2 }, "a slot is free")
	r.dial().call("echo", nil)
	in[1].call("echo", nil)
}

func testIdle(t *testing.T, h Harness) {
	const limit = 400 * time.Millisecond
	r := start(t, h, reactor.Options{IdleTimeout: limit})
	busy, hearing, silent, mute := r.dial(), r.dial(), r.dial(), r.dial()
	r.opened(busy)
	heard := r.opened(hearing)
	began := time.Now()
	r.opened(silent)
	tick := time.NewTicker(limit / 10)
	defer tick.Stop()
	for len(r.server.closes) == 0 {
		<-tick.C
		busy.call("echo", nil)
		require.NoError(t, heard.Send(appendFrame(nil, "push", nil)))
		hearing.receive()
	}
	require.ErrorIs(t, r.closed(), reactor.ErrIdle)
	require.GreaterOrEqual(t, time.Since(began), limit)
	require.Less(t, time.Since(began), 10*limit)
	silent.expectEnd()
	mute.expectEnd()
	busy.call("echo", nil)
	require.Equal(t, 2, r.engine.Connections())
}

// malformed are the byte strings of case B01: what no frame or no header can be.
func malformed() map[string][]byte {
	raw := func(length, word uint32, rest string) []byte {
		b := binary.BigEndian.AppendUint32(nil, length)
		b = binary.BigEndian.AppendUint32(b, word)
		return append(b, rest...)
	}
	binaryForm := func(tail string) []byte {
		h := "\x00\x69\x00\x01\xdf\x00\x00\x00\x07\x00\x00\x00\x00" + tail
		return raw(uint32(4+len(h)), 1<<24|uint32(len(h)), h)
	}
	jsonForm := func(h string) []byte { return raw(uint32(4+len(h)), uint32(len(h)), h) }
	return map[string][]byte{
		"length 2":              {0, 0, 0, 2, 1, 1},
		"length negative":       {0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0},
		"length over the limit": raw(codec.MaxFrameBytes-3, 10, ""),
		"text":                  []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"serialize type 7":      raw(4, 7<<24, ""),
		"header 1000 of 20":     raw(20, 1000, "0123456789012345"),
		"remark 2^31-1":         binaryForm("\x7f\xff\xff\xff\x00\x00\x00\x00"),
		"remark -1":             binaryForm("\xff\xff\xff\xff\x00\x00\x00\x00"),
		"fields too long":       binaryForm("\x00\x00\x00\x00\x00\x00\x10\x00\x00\x01a"),
		"key 65535":             binaryForm("\x00\x00\x00\x00\x00\x00\x00\x04\xff\xff\x00\x00"),
		"header cut":            binaryForm(""),
		"JSON array":            jsonForm("[]"),
		"JSON null":             jsonForm("null"),
		"not UTF-8":             jsonForm("{\"code\":1,\"remark\":\"\xff\xfe\"}\xff"),
		"no JSON":               jsonForm("\xff\xfe\xfd"),
	}
}

// testMalformed is case B01 at the level of the engine.
func testMalformed(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	healthy := r.dial()
	healthy.call("echo", nil)
	stop := make(chan struct{})
	var calls atomic.Int64
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := healthy.nc.Write(appendFrame(nil, "echo", []byte("healthy"))); err != nil {
				failed <- err
				return
			}
			if _, _, err := healthy.tryReceive(patience); err != nil {
				failed <- err
				return
			}
			calls.Add(1)
		}
	}()
	before := residentBytes(t)
	cases := malformed()
	rounds := 5000 / len(cases)
	if testing.Short() || raceEnabled {
		rounds = 20
	}
	for round := range rounds {
		for name, p := range cases {
			c := r.dial()
			c.write(p)
			began := time.Now()
			c.expectEnd()
			require.Less(t, time.Since(began), time.Second, name)
			c.abort()
			if round == 0 {
				t.Logf("%s: %v", name, r.lastReason())
			}
		}
	}
	if grown := residentBytes(t) - before; grown > 64<<20 {
		require.Fail(t, "memory grew", "%d MiB", grown>>20)
	}
	close(stop)
	require.NoError(t, <-failed, "the healthy client saw a failure")
	require.NotZero(t, calls.Load())
}

// lastReason is the reason of the next OnClose, which must tell of malformed bytes.
func (r *rig) lastReason() error {
	r.t.Helper()
	reason := r.closed()
	require.ErrorIs(r.t, reason, codec.ErrMalformed)
	return reason
}

// residentBytes is the process's memory, 0 where it cannot be told.
func residentBytes(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	require.NoError(t, err)
	return pages * os.Getpagesize()
}
