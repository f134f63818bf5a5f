package broker

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// frameOf is a frame with any header.
func frameOf(typ codec.SerializeType, header, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(data)))
	b = binary.BigEndian.AppendUint32(b, uint32(typ)<<24|uint32(len(header)))
	return append(append(b, header...), data...)
}

// rawConn is a bare connection.
func rawConn(t *testing.T, b *testBroker) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", b.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(time.Minute)))
	return nc
}

// readCommand reads one frame.
func readCommand(t *testing.T, r io.Reader) *codec.Command {
	t.Helper()
	var head [4]byte
	_, err := io.ReadFull(r, head[:])
	require.NoError(t, err, "the connection must not be closed")
	frame := append(head[:], make([]byte, binary.BigEndian.Uint32(head[:]))...)
	_, err = io.ReadFull(r, frame[4:])
	require.NoError(t, err)
	f, _, _, err := codec.SplitFrame(frame, codec.MaxFrameBytes)
	require.NoError(t, err)
	var c codec.Command
	require.NoError(t, c.Decode(f))
	return c.Clone()
}

// Case B01: a malformed header behind a good length costs the guilty connection and nobody else.
func TestMalformedFrames(t *testing.T) {
	b := startBroker(t, "")
	binaryHeader := func(patch func(h []byte)) []byte {
		req := pullRequest("g", "T", 0, 0, 0)
		req.Type = codec.SerializeROCKETMQ
		f, _, _, err := codec.SplitFrame(req.AppendTo(nil), codec.MaxFrameBytes)
		require.NoError(t, err)
		h := append([]byte(nil), f.Header...)
		patch(h)
		return frameOf(codec.SerializeROCKETMQ, h, nil)
	}
	put32 := func(at int, v uint32) func(h []byte) {
		return func(h []byte) { binary.BigEndian.PutUint32(h[at:], v) }
	}
	bad := map[string][]byte{
		"total length 2":       {0, 0, 0, 2, 0, 0},
		"serialize type 7":     {0, 0, 0, 4, 7, 0, 0, 0},
		"header beyond length": append([]byte{0, 0, 0, 20, 0, 0, 0x03, 0xE8}, make([]byte, 16)...),
		"remark 0x7FFFFFFF":    binaryHeader(put32(13, 0x7FFFFFFF)),
		"remark -1":            binaryHeader(put32(13, 0xFFFFFFFF)),
		"ext fields too long":  binaryHeader(put32(17, 0x7FFFFFF0)),
		"key of 65535":         binaryHeader(func(h []byte) { h[21], h[22] = 0xFF, 0xFF }),
		"JSON array":           frameOf(codec.SerializeJSON, []byte("[]"), nil),
		"JSON null":            frameOf(codec.SerializeJSON, []byte("null"), nil),
		"not UTF-8":            frameOf(codec.SerializeJSON, []byte("{\"code\":11,\"remark\":\"\xff\xfe\"}"), nil),
		"negative length":      {0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0},
		"length of 2 GiB":      {0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0},
	}
	rounds := 420 // 5,040 connections
	if testing.Short() || raceEnabled {
		rounds = 20
	}
	b.mustSend("T", 0, "", "healthy")
	b.waitQueue("T", 0, 1)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range rounds {
		for name, frame := range bad {
			nc, err := net.Dial("tcp", b.Addr().String())
			require.NoError(t, err)
			_, err = nc.Write(frame)
			require.NoError(t, err)
			require.NoError(t, nc.SetReadDeadline(time.Now().Add(30*time.Second)))
			_, err = io.Copy(io.Discard, nc)
			require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "%s: the connection is still open", name)
			_ = nc.Close()
		}
		answer, _ := b.pull("T", 0, 0)
		require.Equal(t, codec.RespSuccess, answer.Code)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, after.HeapAlloc, before.HeapAlloc+64<<20)
	require.NoError(t, b.peer.Err())
}

// Case B03: a header without fields, with missing or wrong ones, is refused with the name of the first bad
// one; a header that is only unusual is served.
func TestIncompleteHeaders(t *testing.T) {
	b := startBroker(t, "")
	b.mustSend("T", 0, "KEYS\x01k", "body")
	nc := rawConn(t, b)
	opaque := 0
	ask := func(header string, data []byte) *codec.Command {
		t.Helper()
		opaque++
		header = strings.Replace(header, "{", fmt.Sprintf(`{"opaque":%d,`, opaque), 1)
		_, err := nc.Write(frameOf(codec.SerializeJSON, []byte(header), data))
		require.NoError(t, err)
		answer := readCommand(t, nc)
		require.EqualValues(t, opaque, answer.Opaque)
		require.True(t, answer.IsResponse())
		return answer
	}
	refused := func(header, field string) {
		t.Helper()
		answer := ask(header, []byte("b"))
		require.Contains(t, []int{codec.RespSystemError, codec.RespInvalidParameter}, answer.Code, "%s", header)
		require.Regexp(t, `"`+field+`"|"[A-Za-z]+" \(`+field+`\)`, answer.Remark, "%s", header)
	}
	// (a)
	for code, field := range map[int]string{10: "producerGroup", 11: "consumerGroup", 12: "topic",
		14: "consumerGroup", 15: "consumerGroup", 310: "a", 320: "a", 36: "offset", 33: "offset", 29: "topic",
		30: "topic", 31: "topic", 32: "topic", 38: "consumerGroup", 17: "topic", 215: "topic", 202: "topic",
		208: "consumerGroup", 207: "groupName", 203: "consumerGroup", 204: "producerGroup", 222: "topic",
		307: "consumerGroup", 309: "consumerGroup", 315: "statsName", 35: "clientID", 324: "producerGroup", 325: "a"} {
		for _, fields := range []string{"", `,"extFields":null`, `,"extFields":{}`} {
			refused(fmt.Sprintf(`{"code":%d,"language":"JAVA","version":479%s}`, code, fields), field)
		}
	}
	// (c)
	refused(`{"code":12,"version":479,"extFields":{"topic":"T","key":"k","maxNum":"32","begin":"0","end":"9"}}`,
		"beginTimestamp")
	// (e)
	for _, bad := range []string{"12x", "", "99999999999999999999"} {
		refused(`{"code":310,"extFields":{"a":"pg","b":"T","c":"TBW102","d":"`+bad+
			`","e":"0","f":"0","g":"1","h":"0"}}`, "d")
		refused(`{"code":310,"extFields":{"a":"pg","b":"T","c":"TBW102","d":"4","e":"0","f":"0","g":"`+bad+
			`","h":"0"}}`, "g")
		refused(`{"code":11,"extFields":{"consumerGroup":"g","topic":"T","queueId":"0","queueOffset":"`+bad+`",
			"maxMsgNums":"32","sysFlag":"4","commitOffset":"0","suspendTimeoutMillis":"0","subVersion":"0"}}`, "queueOffset")
		refused(`{"code":30,"extFields":{"topic":"T","queueId":"`+bad+`"}}`, "queueId")
	}
	// (b), (d) in JSON, (f)
	for _, rest := range []string{``, `,"language":"ZIG","version":479`, `,"language":"JAVA","version":0`,
		`,"language":"JAVA","version":32767`} {
		answer := ask(`{"code":310`+rest+`,"extFields":{"a":"pg","b":"T","c":"TBW102","d":"4","e":"0","f":"0","g":"1",
			"h":"0"}}`, []byte("b"))
		require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
	}
	b.waitQueue("T", 0, 5)
	for _, rec := range b.all("T", 0)[1:] {
		require.Zero(t, rec.ReconsumeTimes)
		require.Zero(t, rec.SysFlag&codec.SysFlagTransactionMask)
	}
	// (d) in binary
	req := pullRequest("g", "T", 0, 0, 0)
	req.Type, req.Language, req.Opaque = codec.SerializeROCKETMQ, codec.LanguageCode(99), 7
	_, err := nc.Write(req.AppendTo(nil))
	require.NoError(t, err)
	answer := readCommand(t, nc)
	require.Equal(t, codec.RespSuccess, answer.Code)
	require.Equal(t, codec.SerializeROCKETMQ, answer.Type)
	require.EqualValues(t, 7, answer.Opaque)
	// An unknown code.
	answer = ask(`{"code":31999}`, nil)
	require.Equal(t, codec.RespRequestCodeNotSupported, answer.Code)
	require.Equal(t, " request type 31999 not supported", answer.Remark)
}

// Bodies that cannot be read are refused with a reason, and cost nothing.
func TestMalformedBodies(t *testing.T) {
	b := startBroker(t, "")
	f := func(code int, header any, data string) {
		t.Helper()
		answer := b.call(code, header, []byte(data))
		require.NotEqual(t, codec.RespSuccess, answer.Code, "%d %q", code, data)
		require.NotEmpty(t, answer.Remark)
	}
	deep := strings.Repeat("[", 1<<20)
	for _, code := range []int{codec.ReqHeartBeat, codec.ReqLockBatchMQ, codec.ReqUnlockBatchMQ,
		codec.ReqCheckClientConfig, codec.ReqQueryAssignment, codec.ReqUpdateAndCreateTopicList,
		codec.ReqUpdateAndCreateSubscriptionGroup, codec.ReqUpdateAndCreateSubscriptionGroupList} {
		for _, data := range []string{"", "{", "[]", "null", "\xff\xfe", deep} {
			switch code {
			case codec.ReqCheckClientConfig, codec.ReqUpdateAndCreateTopicList, codec.ReqUpdateAndCreateSubscriptionGroupList:
				if data == "[]" || data == "null" || data == "" {
					continue // nothing to do, as in Java
				}
			}
			f(code, nil, data)
		}
	}
	quoted, err := json.Marshal(deep)
	require.NoError(t, err)
	f(codec.ReqHeartBeat, nil, `{"clientID":`+string(quoted)+`,"producerDataSet":[{"groupName":"p"}]}`)
	require.NoError(t, b.peer.Err())
}
