package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	wireDir    = "../../../codec/testdata/wire"
	recordsDir = "../../../codec/testdata/records"
)

// The text twins are what this program says of the frames, so a change here shows up as a change of the golden set.
func TestGoldenText(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(wireDir, "*", "*.bin"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	total := int64(0)
	for _, bin := range files {
		frame, err := os.ReadFile(bin)
		require.NoError(t, err)
		want, err := os.ReadFile(strings.TrimSuffix(bin, ".bin") + ".txt")
		require.NoError(t, err)
		total += int64(len(frame) + len(want))
		cmd, err := decode(frame)
		require.NoError(t, err, bin)
		number, _, _ := strings.Cut(filepath.Base(bin), "-")
		code, err := strconv.Atoi(number)
		require.NoError(t, err)
		title, _, _ := strings.Cut(strings.TrimPrefix(string(want), "# "), "\n")
		require.Equal(t, string(want), commandText(title, frame, cmd, code), bin)
		require.False(t, hostPath.Match(frame), "%s has a path of the machine it was recorded on", bin)
	}
	require.Less(t, total, int64(2<<20), "the golden frames are meant to stay below 2 MiB")
}

func TestGoldenRecords(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(recordsDir, "*.bin"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, bin := range files {
		body, err := os.ReadFile(bin)
		require.NoError(t, err)
		size := 0
		for _, r := range splitRecords(body) {
			size += r.size
		}
		require.Equal(t, len(body), size, bin)
	}
}

// Frames come in pieces that have nothing to do with their borders.
func TestCutPieces(t *testing.T) {
	frames := [][]byte{
		[]byte("\x00\x00\x00\x06\x00\x00\x00\x02{}"),
		[]byte("\x00\x00\x00\x08\x00\x00\x00\x02{}ab"),
	}
	stream := bytes.Join(frames, nil)
	f := func(piece int) {
		t.Helper()
		var out bytes.Buffer
		r := &recorder{out: bufio.NewWriter(&out)}
		var pending []byte
		framed := true
		for at := 0; at < len(stream); at += piece {
			pending = append(pending, stream[at:min(at+piece, len(stream))]...)
			pending, framed = r.cut(pending, Frame{})
			require.True(t, framed)
		}
		require.Empty(t, pending)
		require.NoError(t, r.flush())
		require.Equal(t, len(frames), bytes.Count(out.Bytes(), []byte{'\n'}))
	}
	f(1)
	f(3)
	f(11)
	f(len(stream))
}

func TestCutForeignStream(t *testing.T) {
	r := &recorder{}
	_, framed := r.cut([]byte("\x16\x03\x01\x02\x00\x01\x00"), Frame{}) // a TLS hello
	require.False(t, framed)
}

func TestDecodeErrors(t *testing.T) {
	f := func(frame string) {
		t.Helper()
		_, err := decode([]byte(frame))
		require.Error(t, err)
	}
	f("")
	f("\x00\x00\x00\x04\x00\x00")
	f("\x00\x00\x00\x04\x00\x00\x00\x05{}")       // the header is longer than the frame
	f("\x00\x00\x00\x06\x02\x00\x00\x02{}")       // no such encoding
	f("\x00\x00\x00\x06\x00\x00\x00\x02{]")       // no JSON
	f("\x00\x00\x00\x06\x01\x00\x00\x02\x00\x01") // too short for a binary header
}

// A request through the proxy reaches the server unchanged and is found in the recording with its response.
func TestRecordAndRead(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	response := frameOf(`{"code":0,"flag":1,"opaque":7,"language":"JAVA","version":479}`)
	go func() {
		c, err := server.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 4096)
		if _, err := c.Read(buf); err == nil {
			c.Write(response)
		}
	}()
	dir := t.TempDir()
	label := filepath.Join(dir, "label")
	require.NoError(t, os.WriteFile(label, []byte("java-5.3\n"), 0o644))
	listen := freeAddr(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	out := filepath.Join(dir, "frames.jsonl")
	go func() { ended <- recordTraffic(ctx, out, label, []route{{"broker", listen, server.Addr().String()}}) }()
	request := frameOf(`{"code":34,"flag":0,"opaque":7,"language":"JAVA","version":479}`)
	require.Equal(t, response, roundTrip(t, listen, request, len(response)))
	stop()
	require.NoError(t, <-ended)
	var names []string
	require.NoError(t, read([]string{out}, func(s sample) error {
		names = append(names, s.frame.Label+"/"+s.name())
		return nil
	}))
	require.Equal(t, []string{"java-5.3/34-heart-beat-req", "java-5.3/34-heart-beat-resp"}, names)
}

func frameOf(header string) []byte {
	return fmt.Appendf(nil, "\x00\x00\x00%c\x00\x00\x00%c%s", 4+len(header), len(header), header)
}

// freeAddr is an address nobody listens on now.
func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func roundTrip(t *testing.T, addr string, request []byte, size int) []byte {
	var c net.Conn
	require.Eventually(t, func() (ok bool) {
		var err error
		c, err = net.Dial("tcp", addr)
		return err == nil
	}, 5*time.Second, 5*time.Millisecond)
	defer c.Close()
	_, err := c.Write(request)
	require.NoError(t, err)
	answer := make([]byte, 0, size)
	for len(answer) < size {
		n, err := c.Read(answer[len(answer):size])
		require.NoError(t, err)
		answer = answer[:len(answer)+n]
	}
	return answer
}

func TestRouteFlag(t *testing.T) {
	var r routeFlag
	require.NoError(t, r.Set("broker=[::1]:1,127.0.0.1:2"))
	require.Equal(t, routeFlag{{"broker", "[::1]:1", "127.0.0.1:2"}}, r)
	require.Error(t, r.Set("broker"))
	require.Error(t, r.Set("broker=only"))
}

func TestTopicScenario(t *testing.T) {
	f := func(topic, want string) {
		t.Helper()
		require.Equal(t, want, recordName(record{topic: topic}))
	}
	f("T_java-5_3_send-batch_6b0cbd72", "send-batch")
	f("T_go-remoting_unicode_tpai31_3", "unicode")
	f("T_java-5_3_throughput_6b0cbd72", "") // nothing of its own
	f("TBW102", "")
}
