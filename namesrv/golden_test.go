package namesrv

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

const goldenDir = "../codec/testdata/wire"

// golden is a captured frame.
func golden(t testing.TB, dir, name string) *codec.Command {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(goldenDir, dir, name+".bin"))
	require.NoError(t, err)
	f, n, _, err := codec.SplitFrame(data, codec.MaxFrameBytes)
	require.NoError(t, err)
	require.Len(t, data, n)
	var c codec.Command
	require.NoError(t, c.Decode(f))
	return c.Clone()
}

// replay sends a captured request.
func replay(t *testing.T, c *client.Conn, req *codec.Command) *codec.Command {
	t.Helper()
	if req.IsOneway() { // so that the answer can be seen
		req.Flag = 0
	}
	return call(t, c, req)
}

// fieldsOf is a command's fields, the last of each name.
func fieldsOf(c *codec.Command) map[string]string {
	out := map[string]string{}
	for i := range c.Fields {
		out[string(c.Fields[i].Key)] = c.Fields[i].Text()
	}
	return out
}

// The registrations of real brokers, and then the routes that clients were given of them by Java, byte for
// byte.
func TestGoldenRoutes(t *testing.T) {
	dirs, err := os.ReadDir(goldenDir)
	require.NoError(t, err)
	routes := 0
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(goldenDir, dir.Name(), "105-*-resp*.bin"))
		require.NoError(t, err)
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".bin")
			t.Run(dir.Name()+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { checkGoldenRoute(t, dir.Name(), name) })
			})
			routes++
		}
	}
	require.Greater(t, routes, 10)
}

func checkGoldenRoute(t *testing.T, dir, name string) {
	r := newRig(t, nil, "")
	req, want := golden(t, dir, "105-get-routeinfo-by-topic-req"), golden(t, dir, name)
	if want.Code == codec.RespTopicNotExist {
		topic, rest, _ := strings.Cut(strings.TrimPrefix(want.Remark,
			"No topic route info in name server for the topic: "), "\n")
		require.NotEmpty(t, rest)
		req.Set("topic", topic)
		got := replay(t, r.dial(), req)
		require.Equal(t, want.Code, got.Code)
		require.Equal(t, want.Remark, got.Remark)
		return
	}
	var route body.TopicRouteData
	require.NoError(t, body.Decode(want.Body, &route))
	for _, b := range route.BrokerDatas {
		for _, id := range slices.Sorted(maps.Keys(b.BrokerAddrs)) {
			register := golden(t, "broker-5.3", "103-register-broker-req")
			register.Set("brokerAddr", b.BrokerAddrs[id])
			register.Set("brokerId", strconv.FormatInt(id, 10))
			register.Set("brokerName", b.BrokerName)
			register.Set("clusterName", b.Cluster)
			register.Set("enableActingMaster", strconv.FormatBool(b.EnableActingMaster))
			require.Zero(t, replay(t, r.dial(), register).Code)
		}
	}
	admin := r.dial()
	one := request(codec.ReqRegisterTopicInNamesrv,
		&codec.DeleteTopicInNamesrvRequestHeader{Topic: req.Get("topic")})
	text, err := body.Encode(body.TopicRouteData{QueueDatas: route.QueueDatas})
	require.NoError(t, err)
	one.Body = text
	ok(t, admin, one)
	for range 2 { // built, then cached
		got := replay(t, admin, req)
		require.Zero(t, got.Code)
		require.Equal(t, string(want.Body), string(got.Body))
	}
}

// What a real 5.3 broker registers, increments included, is what Java showed of it.
func TestGoldenRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		broker, cl := r.dial(), r.dial()
		for _, name := range []string{"103-register-broker-req", "103-register-broker-req-one-topic"} {
			got := replay(t, broker, golden(t, "broker-5.3", name))
			want := golden(t, "broker-5.3", "103-register-broker-resp")
			require.Equal(t, want.Code, got.Code, got.Remark)
			require.Equal(t, fieldsOf(want), fieldsOf(got))
			require.Equal(t, want.Body, got.Body)
		}
		got := replay(t, cl, golden(t, "java-5.3", "105-get-routeinfo-by-topic-req"))
		require.Equal(t, string(golden(t, "java-5.3", "105-get-routeinfo-by-topic-resp").Body), string(got.Body))
		got = replay(t, cl, golden(t, "broker-5.3", "106-get-broker-cluster-info-req"))
		require.Equal(t, string(golden(t, "broker-5.3", "106-get-broker-cluster-info-resp").Body), string(got.Body))
		var w body.RegisterBrokerBody
		require.NoError(t, body.Decode(golden(t, "broker-5.3", "103-register-broker-req").Body, &w))
		for topic, c := range w.TopicConfigSerializeWrapper.TopicConfigTable {
			qd := routeOf(t, cl, topic).QueueDatas[0]
			require.Equal(t, body.QueueData{BrokerName: "broker-a", Perm: c.Perm, ReadQueueNums: c.ReadQueueNums,
				WriteQueueNums: c.WriteQueueNums, TopicSysFlag: c.TopicSysFlag}, *qd)
		}
	})
}

// Every other captured request of the name server, against what Java answered. Lists depend on what was
// registered there, so bodies are compared by their members' names.
func TestGoldenAnswers(t *testing.T) {
	codes := regexp.MustCompile(`^(10[0-246]|205|206|216|219|224|304|31[12389]|322|327|901|904)-`)
	dirs, err := os.ReadDir(goldenDir)
	require.NoError(t, err)
	n := 0
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(goldenDir, dir.Name(), "*-req*.bin"))
		require.NoError(t, err)
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".bin")
			if !codes.MatchString(name) {
				continue
			}
			n++
			t.Run(dir.Name()+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { checkGoldenAnswer(t, dir.Name(), name) })
			})
		}
	}
	require.Greater(t, n, 60)
}

func checkGoldenAnswer(t *testing.T, dir, name string) {
	r := newRig(t, nil, "")
	require.Zero(t, replay(t, r.dial(), golden(t, "broker-5.3", "103-register-broker-req")).Code)
	c := r.dial()
	req := golden(t, dir, name)
	if req.Code == codec.ReqGetKVConfig || req.Code == codec.ReqGetKVListByNamespace {
		ok(t, c, request(codec.ReqPutKVConfig, &codec.PutKVConfigRequestHeader{Namespace: req.Get("namespace"),
			Key: req.Get("key") + "k", Value: "v"}))
		if req.Code == codec.ReqGetKVConfig {
			ok(t, c, request(codec.ReqPutKVConfig, &codec.PutKVConfigRequestHeader{Namespace: req.Get("namespace"),
				Key: req.Get("key"), Value: "v1"}))
		}
	}
	got := replay(t, c, req)
	require.Zero(t, got.Code, got.Remark)
	answers, err := filepath.Glob(filepath.Join(goldenDir, dir, strings.Split(name, "-req")[0]+"-resp.bin"))
	require.NoError(t, err)
	if len(answers) == 0 {
		return // oneway, or only a special answer was captured
	}
	want := golden(t, dir, strings.Split(name, "-req")[0]+"-resp")
	require.Equal(t, want.Code, got.Code)
	require.Equal(t, slices.Sorted(maps.Keys(fieldsOf(want))), slices.Sorted(maps.Keys(fieldsOf(got))))
	require.Equal(t, len(want.Body) > 0, len(got.Body) > 0)
	if req.Code == codec.ReqGetNamesrvConfig {
		require.Subset(t, configKeys(got.Body), configKeys(want.Body))
		return
	}
	require.Equal(t, members(want.Body), members(got.Body))
}

// configKeys is the keys of Java's answer, without those that are left out here while they are not set.
func configKeys(text []byte) (keys []string) {
	for line := range strings.Lines(string(text)) {
		if key, _, _ := strings.Cut(line, "="); key != "rocketmqHome" && strings.TrimSpace(key) != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// members is the names of a JSON object's own members, sorted.
func members(text []byte) (names []string) {
	var m map[string]any
	if len(text) == 0 || body.Decode(text, &m) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}
