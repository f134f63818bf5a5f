package broker

import (
	"encoding/json"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

const goldenDir = "../codec/testdata/wire"

// goldenFrames are the captured frames of a client whose file names match.
func goldenFrames(t *testing.T, dir, pattern string) (names []string, frames []*codec.Command) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(goldenDir, dir, pattern+".bin"))
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		f, n, _, err := codec.SplitFrame(data, codec.MaxFrameBytes)
		require.NoError(t, err, file)
		require.Len(t, data, n)
		var c codec.Command
		require.NoError(t, c.Decode(f), file)
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".bin"))
		frames = append(frames, c.Clone())
	}
	return names, frames
}

// fieldNames are the names of a command's fields, sorted.
func fieldNames(c *codec.Command) []string {
	names := map[string]bool{}
	for i := range c.Fields {
		names[string(c.Fields[i].Key)] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// goldenOrder: what makes something comes before what asks for it, and deletions come last.
func goldenOrder(code int) int {
	switch code {
	case codec.ReqUpdateAndCreateTopic, codec.ReqUpdateAndCreateSubscriptionGroup:
		return 0
	case codec.ReqSendMessage, codec.ReqSendMessageV2, codec.ReqSendBatchMessage, codec.ReqHeartBeat:
		return 1
	case codec.ReqUpdateConsumerOffset, codec.ReqLockBatchMQ:
		return 2
	case codec.ReqUnregisterClient, codec.ReqDeleteTopicInBroker, codec.ReqDeleteSubscriptionGroup:
		return 9
	}
	return 5
}

// serves tells whether the broker has the request code; captured ones it has not belong to later parts.
func (b *testBroker) serves(code int) bool { return slices.Contains(b.RequestCodes(), code) }

// Requests as real clients sent them are answered with the fields that a Java broker's answers have, in the
// header encoding of the request.
func TestGoldenRequests(t *testing.T) {
	for _, dir := range []string{"java-4.9", "java-5.3", "java-5.3-binary", "java-5.3-binary-both",
		"go-remoting", "mqadmin-4.9", "mqadmin-5.3"} {
		t.Run(dir, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { replayGolden(t, dir) }) })
	}
}

func replayGolden(t *testing.T, dir string) {
	ns := newNamesrv(t)
	ns.route = &body.TopicRouteData{QueueDatas: []*body.QueueData{{BrokerName: "broker-a", ReadQueueNums: 8,
		WriteQueueNums: 8, Perm: 6}}}
	b := start(t, setup{fs: vfs.NewMem(), virtual: true, namesrv: ns, conf: "enablePropertyFilter=true\n" +
		"namesrvAddr=ns:9876\n"})
	names, reqs := goldenFrames(t, dir, "*-req*")
	order := make([]int, len(reqs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return goldenOrder(reqs[x].Code) - goldenOrder(reqs[y].Code)
	})
	b.prepareGolden(reqs)
	nc, err := b.net.Dial(t.Context(), b.Addr().String())
	require.NoError(t, err)
	defer nc.Close()
	compared := map[int]bool{}
	for _, i := range order {
		req, name := reqs[i], names[i]
		if !b.serves(req.Code) || strings.Contains(name, "push") {
			continue
		}
		if req.Code == codec.ReqEndTransaction && req.Get("commitOrRollback") == "0" {
			continue // unknown: no answer, as Java
		}
		req.Flag = 0 // an answer to a one-way request is wanted here, too
		answer := replay(t, nc, req)
		require.Equal(t, req.Type, answer.Type, name)
		_, responses := goldenFrames(t, dir, strconv.Itoa(req.Code)+"-*-resp*")
		for _, want := range responses {
			if want.Code == answer.Code {
				compareGolden(t, name, want, answer)
				compared[req.Code] = true
				break
			}
		}
	}
	require.Greater(t, len(compared), 10, "codes with an answer to compare: %v",
		slices.Sorted(maps.Keys(compared)))
}

// prepareGolden makes what the captured requests name.
func (b *testBroker) prepareGolden(reqs []*codec.Command) {
	for _, req := range reqs {
		if req.Code == codec.ReqQueryAssignment {
			var q body.QueryAssignmentRequestBody
			require.NoError(b.t, body.Decode(req.Body, &q))
			b.dial().beat(q.ClientID, consumer(b.t, q.ConsumerGroup, 1, q.Topic+" *"))
		}
		for _, field := range []string{"topic", "b", "originTopic"} {
			if name := req.Get(field); codec.ValidateTopic(name) == nil && !b.topics.IsSystem(name) &&
				b.topics.Get(name) == nil {
				b.createTopic(name, 8, 6)
				b.mustSend(name, 0, "KEYS\x01k", "m")
			}
		}
		for _, field := range []string{"consumerGroup", "group"} {
			if name := req.Get(field); codec.ValidateGroup(name) == nil && b.groups.Get(name) == nil {
				b.createGroup(name, nil)
			}
		}
	}
	synctest.Wait()
}

// replay sends a request as it was captured, with its own header encoding.
func replay(t *testing.T, nc net.Conn, req *codec.Command) *codec.Command {
	t.Helper()
	_, err := nc.Write(req.AppendTo(nil))
	require.NoError(t, err)
	for {
		answer := readCommand(t, nc)
		if answer.IsResponse() { // else a notice to a consumer
			require.Equal(t, req.Opaque, answer.Opaque)
			return answer
		}
	}
}

func compareGolden(t *testing.T, name string, want, got *codec.Command) {
	t.Helper()
	if pullRefused := want.Code != codec.RespSuccess && len(want.Fields) < len(got.Fields); pullRefused {
		require.Subset(t, fieldNames(got), fieldNames(want), name) // case B09: ours have the offsets with any code
	} else {
		require.Equal(t, fieldNames(want), fieldNames(got), "%s: fields of the answer %d", name, want.Code)
	}
	require.Equal(t, want.Flag, got.Flag, name)
	require.Equal(t, len(want.Body) > 0, len(got.Body) > 0, "%s: body", name)
	var wantBody, gotBody map[string]json.RawMessage
	if json.Unmarshal(want.Body, &wantBody) == nil && json.Unmarshal(got.Body, &gotBody) == nil {
		require.Equal(t, slices.Sorted(maps.Keys(wantBody)), slices.Sorted(maps.Keys(gotBody)), "%s: body %.300s",
			name, got.Body)
	}
	if want.Code == codec.RespSuccess && got.Code == codec.RespSuccess && strings.HasPrefix(name, "28-") {
		var java, ours body.KVTable
		require.NoError(t, body.Decode(want.Body, &java))
		require.NoError(t, body.Decode(got.Body, &ours))
		maps.DeleteFunc(java.Table, func(key, _ string) bool {
			_, ok := ours.Table[strings.Replace(key, "/srv/rocketmq/a/store", "/data", 1)]
			return ok || strings.HasPrefix(key, "scheduleMessageOffset_") // of the levels in use
		})
		require.Empty(t, java.Table, "runtime info that we do not have")
	}
}
