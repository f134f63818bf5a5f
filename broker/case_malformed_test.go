package broker

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/badframes"
)

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
	rounds := 420 // 5,040 connections
	if testing.Short() || raceEnabled {
		rounds = 20
	}
	b.mustSend("T", 0, "", "healthy")
	b.waitQueue("T", 0, 1)
	badframes.Refused(t, b.Addr().String(), pullRequest("g", "T", 0, 0, 0), rounds, func() {
		answer, _ := b.pull("T", 0, 0)
		require.Equal(t, codec.RespSuccess, answer.Code)
	})
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
		_, err := nc.Write(badframes.Frame(codec.SerializeJSON, []byte(header), data))
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
