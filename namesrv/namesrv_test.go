package namesrv

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/persist"
	"skylark/internal/testlog"
	"skylark/internal/vfs"
	"skylark/internal/vfs/errorfs"
	"skylark/reactor"
	"skylark/reactor/mem"
)

func TestRegisterRouteUnregister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		broker, cl := r.dial(), r.dial()
		a := brokerSays{addr: "10.0.0.2:10911", ha: "10.0.0.2:10912", topics: []string{"T"}}
		require.Nil(t, routeOf(t, cl, "T"))
		ok(t, broker, a.register())
		route := routeOf(t, cl, "T")
		require.Equal(t, "10.0.0.2:10911", route.BrokerDatas[0].MasterAddr())
		require.Equal(t, int32(16), route.QueueDatas[0].WriteQueueNums)

		slave := a
		slave.id, slave.addr = 1, "10.0.0.3:10911"
		answer := ok(t, r.dial(), slave.register())
		require.Equal(t, "10.0.0.2:10911", answer.Get("masterAddr"))
		require.Equal(t, "10.0.0.2:10912", answer.Get("haServerAddr"))
		require.Len(t, routeOf(t, cl, "T").BrokerDatas[0].BrokerAddrs, 2)

		ok(t, broker, a.unregister())
		require.Equal(t, map[string]map[int64]string{"broker-a": {1: "10.0.0.3:10911"}}, addrsOf(t, cl, "T"))
		ok(t, broker, slave.unregister())
		require.Nil(t, routeOf(t, cl, "T"), "the answer means that it is done")
		require.Empty(t, clusters(t, cl))
	})
}

func TestConnectionCloseRemoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		broker, cl := r.dial(), r.dial()
		ok(t, broker, brokerSays{addr: "10.0.0.2:10911", topics: []string{"T"}}.register())
		require.NotNil(t, routeOf(t, cl, "T"))
		require.NoError(t, broker.Close())
		synctest.Wait()
		require.Nil(t, routeOf(t, cl, "T"))
		r.ns.peers.mu.Lock()
		require.Empty(t, r.ns.peers.conns)
		r.ns.peers.mu.Unlock()
	})
}

func TestSilentBrokerExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "serverChannelMaxIdleTimeSeconds=100000")
		silentOne, busy, cl := r.dial(), r.dial(), r.dial()
		ok(t, silentOne, brokerSays{addr: "10.0.0.2:10911", topics: []string{"T"}}.register())
		ok(t, busy, brokerSays{name: "broker-b", addr: "10.0.0.3:10911", topics: []string{"T"}}.register())
		for range 4 {
			time.Sleep(30 * time.Second)
			beat := request(codec.ReqBrokerHeartbeat, &codec.BrokerHeartbeatRequestHeader{
				ClusterName: "DefaultCluster", BrokerName: "broker-b", BrokerAddr: "10.0.0.3:10911"})
			require.NoError(t, busy.Oneway(beat))
			synctest.Wait()
			require.Len(t, addrsOf(t, cl, "T"), 2)
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, map[string]map[int64]string{"broker-b": {0: "10.0.0.3:10911"}}, addrsOf(t, cl, "T"))
		<-silentOne.Done()
		require.NoError(t, busy.Err())
		time.Sleep(time.Hour)
		require.Empty(t, addrsOf(t, cl, "T"))
		r.ns.expiry.mu.Lock()
		require.True(t, r.ns.expiry.at.IsZero(), "without brokers no timer is set")
		r.ns.expiry.mu.Unlock()
	})
}

// A broker with a short timeout is found in time although the timer was set for another.
func TestExpiryIsMovedForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		cl := r.dial()
		ok(t, r.dial(), brokerSays{addr: "10.0.0.2:10911", topics: []string{"T"}}.register())
		ok(t, r.dial(), brokerSays{name: "b", addr: "10.0.0.3:10911", timeoutMillis: 3000,
			topics: []string{"T"}}.register())
		time.Sleep(3*time.Second + 10*time.Millisecond)
		synctest.Wait()
		require.Equal(t, "DefaultCluster/broker-a", strings.SplitN(clusters(t, cl), "map", 2)[0])
		ok(t, r.dial(), brokerSays{name: "c", addr: "10.0.0.4:10911", timeoutMillis: 1,
			topics: []string{"T"}}.register())
		time.Sleep(time.Second)
		require.Contains(t, clusters(t, cl), "/c", "no more than one scan in scanNotActiveBrokerInterval")
		time.Sleep(5 * time.Second)
		require.NotContains(t, clusters(t, cl), "/c")
	})
}

func TestUnknownCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		cl := r.dial()
		for _, code := range []int{0, 10, 11, 34, 310, 1005, 4711, 32767, 200050} {
			answer := call(t, cl, codec.NewRequest(code))
			require.Equal(t, codec.RespRequestCodeNotSupported, answer.Code, code)
			require.Regexp(t, `^ request type \d+ not supported$`, answer.Remark)
		}
	})
}

// Case B03: headers without fields, with fields of the wrong kind, unknown languages and versions.
func TestFaultyHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		cl := r.dial()
		ok(t, r.dial(), brokerSays{addr: "10.0.0.2:10911", topics: []string{"T"}}.register())
		refused := func(field string, req *codec.Command) {
			t.Helper()
			answer := call(t, cl, req)
			require.Contains(t, []int{codec.RespSystemError, codec.RespInvalidParameter}, answer.Code)
			require.Contains(t, answer.Remark, `"`+field+`"`)
		}
		first := map[int]string{100: "namespace", 101: "namespace", 102: "namespace", 219: "namespace",
			103: "brokerName", 104: "brokerName", 105: "topic", 205: "brokerName", 327: "brokerName", 216: "topic",
			217: "topic", 224: "cluster", 322: "brokerName", 901: "clusterName", 904: "clusterName"}
		for code, field := range first {
			refused(field, codec.NewRequest(code))
			binary := codec.NewRequest(code)
			binary.Type = codec.SerializeROCKETMQ
			refused(field, binary)
		}
		for _, value := range []string{"12x", "", "99999999999999999999"} {
			req := brokerSays{addr: "10.0.0.9:1"}.register()
			req.Set("brokerId", value)
			refused("brokerId", req)
			req = brokerSays{addr: "10.0.0.9:1"}.unregister()
			req.Set("brokerId", value)
			refused("brokerId", req)
		}
		for _, field := range []string{"brokerName", "brokerAddr", "clusterName"} {
			req := brokerSays{addr: "10.0.0.9:1"}.register()
			req.Set(field, "")
			refused(field, req)
			req.Set(field, strings.Repeat("x", maxNameBytes+1))
			refused(field, req)
		}
		for _, version := range []int{0, 32767} {
			req := routeRequest("T")
			req.Version = version
			ok(t, cl, req)
		}
		require.NoError(t, cl.Err(), "the connection is never closed")
	})
}

// The same with raw JSON headers, whose field map is missing, null or empty, and languages nobody knows.
func TestRawHeaders(t *testing.T) {
	ns := newTCP(t)
	f := func(header string, want int) {
		t.Helper()
		answer := rawCall(t, ns, codec.SerializeJSON, []byte(header))
		require.Equal(t, want, answer.Code, answer.Remark)
		require.EqualValues(t, 77, answer.Opaque)
	}
	f(`{"code":105,"flag":0,"opaque":77,"version":479}`, codec.RespInvalidParameter)
	f(`{"code":105,"flag":0,"opaque":77,"version":479,"extFields":null}`, codec.RespInvalidParameter)
	f(`{"code":105,"flag":0,"opaque":77,"version":479,"extFields":{}}`, codec.RespInvalidParameter)
	f(`{"code":105,"language":"ZIG","opaque":77,"extFields":{"topic":"none"}}`, codec.RespTopicNotExist)
	f(`{"code":106,"language":"ZIG","opaque":77}`, codec.RespSuccess)
	f(`{"code":106,"language":null,"opaque":77,"remark":null}`, codec.RespSuccess)
	f(`{"code":105,"opaque":77,"extFields":{"topic":"no\u006ee"}}`, codec.RespTopicNotExist)

	binary := request(codec.ReqGetBrokerClusterInfo, nil)
	binary.Type, binary.Opaque = codec.SerializeROCKETMQ, 77
	frame, _, _, err := codec.SplitFrame(binary.AppendTo(nil), codec.MaxFrameBytes)
	require.NoError(t, err)
	frame.Header[2] = 99 // language
	require.Zero(t, rawCall(t, ns, codec.SerializeROCKETMQ, frame.Header).Code)
}

func TestEncodingByVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		cl := r.dial()
		ok(t, r.dial(), brokerSays{addr: "10.0.0.2:10911", topics: []string{"T"}}.register())
		f := func(version int, standardOnly, quoted bool) {
			t.Helper()
			req := routeRequest("T")
			req.Version = version
			if standardOnly {
				req.SetBool(codec.ExtStandardJSONOnly, true)
			}
			text := string(ok(t, cl, req).Body)
			require.Equal(t, quoted, strings.Contains(text, `{"0":"10.0.0.2:10911"}`), text)
			require.Equal(t, !quoted, strings.Contains(text, `{0:"10.0.0.2:10911"}`), text)
		}
		for range 2 { // built, then cached
			f(317, false, false)
			f(400, false, false)
			f(401, false, true)
			f(479, false, true)
			f(317, true, true)
		}
	})
}

func TestZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		cl := r.dial()
		for i, zone := range []string{"east", "west"} {
			req := brokerSays{name: "b-" + zone, addr: fmt.Sprintf("10.0.0.2:%d", i+1),
				topics: []string{"T"}}.register()
			req.Set(codec.ExtZoneName, zone)
			ok(t, r.dial(), req)
		}
		f := func(mode, zone string, brokers int) {
			t.Helper()
			req := routeRequest("T")
			req.Set(codec.ExtZoneMode, mode)
			req.Set(codec.ExtZoneName, zone)
			var route body.TopicRouteData
			answer := ok(t, cl, req)
			require.NoError(t, body.Decode(answer.Body, &route))
			require.Len(t, route.BrokerDatas, brokers)
			require.Len(t, route.QueueDatas, brokers)
			require.Equal(t, brokers == 1, strings.Contains(string(answer.Body), "{0:"),
				"filtered ones are legacy JSON")
		}
		f("true", "EAST", 1)
		f("false", "east", 2)
		f("true", "  ", 2)
		req := routeRequest("unknown")
		req.Set(codec.ExtZoneMode, "true")
		req.Set(codec.ExtZoneName, "east")
		require.Equal(t, codec.RespTopicNotExist, call(t, cl, req).Code)
	})
}

func TestOrderTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "orderMessageEnable=true")
		cl, broker := r.dial(), r.dial()
		a := brokerSays{addr: "10.0.0.2:10911", topics: []string{"T"}}
		require.Empty(t, ok(t, broker, a.register()).Body)
		require.Empty(t, routeOf(t, cl, "T").OrderTopicConf)
		put := &codec.PutKVConfigRequestHeader{Namespace: codec.OrderTopicConfNamespace, Key: "T",
			Value: "broker-a:8"}
		ok(t, cl, request(codec.ReqPutKVConfig, put))
		require.Equal(t, "broker-a:8", routeOf(t, cl, "T").OrderTopicConf)
		require.JSONEq(t, `{"table":{"T":"broker-a:8"}}`, string(ok(t, broker, a.register()).Body))
		put.Value = "broker-a:4"
		ok(t, cl, request(codec.ReqPutKVConfig, put))
		require.Equal(t, "broker-a:4", routeOf(t, cl, "T").OrderTopicConf)
		ok(t, cl, request(codec.ReqDeleteKVConfig,
			&codec.KVConfigRequestHeader{Namespace: put.Namespace, Key: "T"}))
		require.Empty(t, routeOf(t, cl, "T").OrderTopicConf)

		update := codec.NewRequest(codec.ReqUpdateNamesrvConfig)
		update.Body = []byte("returnOrderTopicConfigToBroker=false\norderMessageEnable=false\n")
		ok(t, cl, request(codec.ReqPutKVConfig, put))
		ok(t, cl, update)
		require.Empty(t, ok(t, broker, a.register()).Body, "live")
		require.Empty(t, routeOf(t, cl, "T").OrderTopicConf, "live")
	})
}

func TestNotReadyYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "needWaitForService=true\nwaitSecondsForService=45")
		cl := r.dial()
		ok(t, r.dial(), brokerSays{addr: "10.0.0.2:10911", topics: []string{"T"}}.register())
		time.Sleep(44 * time.Second)
		answer := call(t, cl, routeRequest("T"))
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Equal(t, "name server not ready", answer.Remark)
		time.Sleep(time.Second)
		ok(t, cl, routeRequest("T"))
	})
}

// A route that is asked while a change is under way is answered by the pool; one that is cached does not wait
// at all, nor does what comes behind it on the connection.
func TestRouteDoesNotWaitOnTheLoop(t *testing.T) {
	r := newRig(t, nil, "")
	cl := r.dial()
	ok(t, r.dial(), brokerSays{addr: "10.0.0.2:10911", topics: []string{"T", "U"}}.register())
	ok(t, cl, routeRequest("T"))
	r.ns.routes.mu.Lock()
	got := make(chan *codec.Command, 1)
	_, err := cl.Go(routeRequest("U"), func(c *codec.Command, _ error) { got <- c })
	require.NoError(t, err)
	ok(t, cl, routeRequest("T"))
	require.Empty(t, got)
	r.ns.routes.mu.Unlock()
	require.Zero(t, (<-got).Code)
}

func TestTopicRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		cl := r.dial()
		ok(t, r.dial(), brokerSays{addr: "10.0.0.2:10911", topics: []string{"T", "U"}}.register())
		all := codec.NewRequest(codec.ReqGetAllTopicListFromNameserver)
		require.Equal(t, []string{"T", "TBW102", "U"}, listOf(t, call(t, cl, all)))
		byCluster := request(codec.ReqGetTopicsByCluster,
			&codec.GetTopicsByClusterRequestHeader{Cluster: "DefaultCluster"})
		require.Equal(t, []string{"T", "TBW102", "U"}, listOf(t, call(t, cl, byCluster)))
		nowhere := request(codec.ReqGetTopicsByCluster, &codec.GetTopicsByClusterRequestHeader{Cluster: "X"})
		require.JSONEq(t, `{"topicList":[]}`, string(ok(t, cl, nowhere).Body))
		system := codec.NewRequest(codec.ReqGetSystemTopicListFromNS)
		require.Equal(t, []string{"DefaultCluster", "broker-a"}, listOf(t, call(t, cl, system)))

		one := request(codec.ReqRegisterTopicInNamesrv, &codec.DeleteTopicInNamesrvRequestHeader{Topic: "One"})
		ok(t, cl, one) // without body: nothing
		one.Body = []byte(`{"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":3,` +
			`"writeQueueNums":3}]}`)
		ok(t, cl, one)
		require.EqualValues(t, 3, routeOf(t, cl, "One").QueueDatas[0].ReadQueueNums)
		one.Body = []byte(`{"queueDatas":`)
		require.Equal(t, codec.RespSystemError, call(t, cl, one).Code)
		ok(t, cl, request(codec.ReqDeleteTopicInNamesrv, &codec.DeleteTopicInNamesrvRequestHeader{Topic: "One"}))
		require.Nil(t, routeOf(t, cl, "One"))

		wipe := &codec.BrokerNameRequestHeader{BrokerName: "broker-a"}
		require.Equal(t, "3", ok(t, cl, request(codec.ReqWipeWritePermOfBroker, wipe)).Get("wipeTopicCount"))
		require.EqualValues(t, codec.PermRead, routeOf(t, cl, "T").QueueDatas[0].Perm)
		require.Equal(t, "3", ok(t, cl, request(codec.ReqAddWritePermOfBroker, wipe)).Get("addTopicCount"))
		require.EqualValues(t, codec.PermRead|codec.PermWrite, routeOf(t, cl, "T").QueueDatas[0].Perm)

		update := codec.NewRequest(codec.ReqUpdateNamesrvConfig)
		update.Body = []byte("enableAllTopicList=false\nenableTopicList=false")
		ok(t, cl, update)
		for _, req := range []*codec.Command{all, byCluster, codec.NewRequest(codec.ReqGetUnitTopicList),
			codec.NewRequest(codec.ReqGetHasUnitSubTopicList),
			codec.NewRequest(codec.ReqGetHasUnitSubUnunitTopicList)} {
			answer := call(t, cl, req)
			require.Equal(t, codec.RespSystemError, answer.Code)
			require.Equal(t, "disable", answer.Remark)
		}
		ok(t, cl, system)
	})
}

func TestRegisterRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		cl := r.dial()
		f := func(change func(req *codec.Command), remark string) {
			t.Helper()
			req := brokerSays{addr: "10.0.0.2:10911", topics: []string{"T"}}.register()
			change(req)
			answer := call(t, cl, req)
			require.Equal(t, codec.RespSystemError, answer.Code)
			require.Contains(t, answer.Remark, remark)
			require.Empty(t, clusters(t, cl))
		}
		f(func(req *codec.Command) { req.Set("bodyCrc32", "1") }, "crc32 not match")
		f(func(req *codec.Command) { req.Body = req.Body[:20]; req.Set("bodyCrc32", "0") }, "RegisterBrokerBody")
		f(func(req *codec.Command) { req.Set("compressed", "true"); req.Set("bodyCrc32", "0") },
			"RegisterBrokerBody")
		one := brokerSays{addr: "10.0.0.2:10911"}.register() // TBW102 alone
		answer := call(t, cl, one)
		require.Equal(t, "register broker failed", answer.Remark)
		empty := brokerSays{addr: "10.0.0.2:10911"}.register()
		empty.Body = nil
		empty.Set("bodyCrc32", "0")
		ok(t, cl, empty) // no body: no topics
		require.Contains(t, clusters(t, cl), "10.0.0.2:10911")
	})
}

// Bodies as brokers of all ages send them.
func TestRegisterBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		cl := r.dial()
		w := body.RegisterBrokerBody{}
		w.TopicConfigSerializeWrapper.TopicConfigTable = map[string]*body.TopicConfig{}
		for _, topic := range []string{"T", "U"} {
			w.TopicConfigSerializeWrapper.TopicConfigTable[topic] = &body.TopicConfig{TopicName: topic,
				ReadQueueNums: 5, WriteQueueNums: 6, Perm: 6, TopicFilterType: body.SingleTag}
		}
		f := func(version int, compressed string, text []byte, err error) {
			t.Helper()
			require.NoError(t, err)
			c := r.dial()
			req := brokerSays{addr: "10.0.0.2:10911"}.register()
			req.Version, req.Body = version, text
			req.Set("compressed", compressed)
			req.Set("bodyCrc32", "0")
			ok(t, c, req)
			require.EqualValues(t, 6, routeOf(t, cl, "T").QueueDatas[0].WriteQueueNums)
			require.NotNil(t, routeOf(t, cl, "U"))
			require.NoError(t, c.Close())
			synctest.Wait()
			require.Nil(t, routeOf(t, cl, "T"))
		}
		plain, err := body.Encode(w)
		f(codec.Version533, "false", plain, err)
		f(codec.Version498, "false", plain, err)
		f(32767, "false", plain, err)
		v49, err := w.EncodeCompressed(codec.Version498)
		f(codec.Version498, "true", v49, err)
		v53, err := w.EncodeCompressed(codec.Version533)
		f(codec.Version533, "true", v53, err)
		f(codec.Version533, "false", v53, nil) // 5.x says false and compresses
		old, err := body.Encode(w.TopicConfigSerializeWrapper)
		f(codec.Version3011-1, "false", old, err)
	})
}

func TestHeartbeatTimeoutBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		for millis, want := range map[int64]time.Duration{0: DefaultHeartbeatTimeout, -5: DefaultHeartbeatTimeout,
			1: time.Millisecond, 1 << 62: maxHeartbeatTimeout} {
			c := r.dial()
			ok(t, c, brokerSays{addr: "10.0.0.2:10911", topics: []string{"T"}, timeoutMillis: millis}.register())
			r.ns.routes.mu.RLock()
			require.Equal(t, want, r.ns.routes.brokerLiveTable["10.0.0.2:10911"].timeout)
			r.ns.routes.mu.RUnlock()
		}
	})
}

// brokerListener takes the notifications that come to a broker's address.
type brokerListener struct {
	eng *mem.Engine
	got chan *codec.Command
}

func listenAs(t *testing.T, n *mem.Network, addr string) *brokerListener {
	t.Helper()
	b := &brokerListener{eng: mem.NewOn(n, reactor.Options{Listen: []string{addr}, Loops: 1}),
		got: make(chan *codec.Command, 64)}
	require.NoError(t, b.eng.Start(b))
	t.Cleanup(func() { require.NoError(t, b.eng.Stop(context.Background())) })
	return b
}

func (b *brokerListener) OnOpen(reactor.Conn) error   { return nil }
func (b *brokerListener) OnClose(reactor.Conn, error) {}
func (b *brokerListener) OnFrames(_ reactor.Conn, frames []codec.Frame, _ *reactor.Outbox) {
	for _, f := range frames {
		var c codec.Command
		if c.Decode(f) == nil {
			b.got <- c.Clone()
		}
	}
}

func TestMinBrokerIDNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "notifyMinBrokerIdChanged=true\nsupportActingMaster=true")
		s1, s2 := listenAs(t, r.net, "10.0.0.3:10911"), listenAs(t, r.net, "10.0.0.4:10911")
		cl, master := r.dial(), r.dial()
		m := brokerSays{addr: "10.0.0.2:10911", ha: "10.0.0.2:10912", acting: true, topics: []string{"T"}}
		ok(t, master, m.register())
		for id, addr := range map[int64]string{1: "10.0.0.3:10911", 2: "10.0.0.4:10911"} {
			ok(t, r.dial(), brokerSays{addr: addr, ha: addr, id: id, acting: true, topics: []string{"T"}}.register())
		}
		require.NoError(t, master.Close())
		for _, s := range []*brokerListener{s1, s2} {
			req := <-s.got
			require.True(t, req.IsOneway())
			require.Equal(t, codec.ReqNotifyMinBrokerIDChange, req.Code)
			fields := map[string]string{}
			for i := range req.Fields {
				fields[string(req.Fields[i].Key)] = req.Fields[i].Text()
			}
			require.Equal(t, map[string]string{"minBrokerId": "1", "brokerName": "broker-a",
				"minBrokerAddr": "10.0.0.3:10911", "offlineBrokerAddr": "10.0.0.2:10911"}, fields)
		}
		require.Equal(t, "10.0.0.3:10911", addrsOf(t, cl, "T")["broker-a"][0], "it acts as master")

		m.version.Counter++
		ok(t, r.dial(), m.register())
		for _, s := range []*brokerListener{s1, s2} {
			req := <-s.got
			require.Equal(t, "0", req.Get("minBrokerId"))
			require.Equal(t, "10.0.0.2:10912", req.Get("haBrokerAddr"))
			require.Nil(t, req.Lookup("offlineBrokerAddr"))
		}
	})
}

// A target that cannot be reached holds nobody up, neither registrations nor other targets.
func TestNotificationOfDeadBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "notifyMinBrokerIdChanged=true")
		alive := listenAs(t, r.net, "10.0.0.9:10911")
		master := r.dial()
		ok(t, master, brokerSays{addr: "10.0.0.2:10911", acting: true, topics: []string{"T"}}.register())
		for id := range int64(20) {
			addr := "10.0.0.9:10911"
			if id != 7 {
				addr = "10.0.1." + string(rune('a'+id)) + ":1" // no such host
			}
			ok(t, r.dial(), brokerSays{addr: addr, id: id + 1, acting: true, topics: []string{"T"}}.register())
		}
		require.NoError(t, master.Close())
		require.Equal(t, "1", (<-alive.got).Get("minBrokerId"))
		synctest.Wait()
		require.Equal(t, 19, r.log.Count("not told of the new smallest broker id"))
	})
}

func TestCloseIsIdempotentAndEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "notifyMinBrokerIdChanged=true\nenableShutdownGracefully=true")
		cl := r.dial()
		for id := range int64(3) {
			ok(t, r.dial(), brokerSays{addr: "10.0.2." + string(rune('1'+id)) + ":1", id: id, acting: true,
				topics: []string{"T"}}.register())
		}
		r.close()
		<-cl.Done()
		r.close()
		_, err := client.Dial(t.Context(), r.ns.Addr().String(), client.Options{Dialer: memDialer{r.net}})
		require.Error(t, err)
		synctest.Wait()
	})
}

func TestCloseWithoutStart(t *testing.T) {
	ns, err := New(Options{Config: loadSet(t, ""), FS: vfs.NewMem(), Log: silent})
	require.NoError(t, err)
	require.False(t, ns.Addr().IsValid())
	require.NoError(t, ns.Close(context.Background()))
}

func TestStartErrors(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "Config")

	first := newTCP(t)
	again, err := New(Options{Config: loadSet(t, ""), FS: vfs.NewMem(), Log: silent,
		Listen: []string{first.Addr().String()}})
	require.NoError(t, err)
	require.ErrorContains(t, again.Start(), first.Addr().String())
	require.NoError(t, again.Close(context.Background()))

	files := vfs.NewMem()
	require.NoError(t, saveFile(files, "/ns/kvConfig.json", []byte(`{"configTable":`)))
	damaged, err := New(Options{Config: loadSet(t, ""), FS: files, Log: silent, Listen: []string{"127.0.0.1:0"}})
	require.NoError(t, err)
	err = damaged.Start()
	require.ErrorIs(t, err, persist.ErrDamaged)
	require.ErrorContains(t, err, "/ns/kvConfig.json")
	require.NoError(t, damaged.Close(context.Background()))
}

func TestKVConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := vfs.NewMem()
		r := newRig(t, files, "")
		cl := r.dial()
		get := func(namespace, key string) *codec.Command {
			return call(t, cl, request(codec.ReqGetKVConfig,
				&codec.KVConfigRequestHeader{Namespace: namespace, Key: key}))
		}
		put := func(namespace, key, value string) {
			t.Helper()
			ok(t, cl, request(codec.ReqPutKVConfig,
				&codec.PutKVConfigRequestHeader{Namespace: namespace, Key: key, Value: value}))
		}
		answer := get("ns", "k")
		require.Equal(t, codec.RespQueryNotFound, answer.Code)
		require.Equal(t, "No config item, Namespace: ns Key: k", answer.Remark)
		_, err := files.Stat("/ns/kvConfig.json")
		require.ErrorIs(t, err, fs.ErrNotExist, "nothing is written before something is put")

		put("ns", "k", "v1")
		put("ns", "k2", "")
		put("other", "k", "é\"")
		require.Equal(t, "v1", get("ns", "k").Get("value"))
		require.NotNil(t, get("ns", "k2").Lookup("value"))
		list := ok(t, cl, request(codec.ReqGetKVListByNamespace,
			&codec.GetKVListByNamespaceRequestHeader{Namespace: "ns"}))
		require.Equal(t, `{"table":{"k":"v1","k2":""}}`, string(list.Body))
		missing := call(t, cl, request(codec.ReqGetKVListByNamespace,
			&codec.GetKVListByNamespaceRequestHeader{Namespace: "x"}))
		require.Equal(t, codec.RespQueryNotFound, missing.Code)
		require.Equal(t, "No config item, Namespace: x", missing.Remark)

		text, err := vfs.ReadFile(files, "/ns/kvConfig.json")
		require.NoError(t, err)
		require.Equal(t, `{"configTable":{"ns":{"k":"v1","k2":""},"other":{"k":"é\""}}}`, string(text),
			"as Java writes it")
		bak, err := vfs.ReadFile(files, "/ns/kvConfig.json.bak")
		require.NoError(t, err)
		require.Equal(t, `{"configTable":{"ns":{"k":"v1","k2":""}}}`, string(bak))

		for _, key := range []string{"k", "k2", "k2"} {
			ok(t, cl, request(codec.ReqDeleteKVConfig, &codec.KVConfigRequestHeader{Namespace: "ns", Key: key}))
		}
		ok(t, cl, request(codec.ReqDeleteKVConfig, &codec.KVConfigRequestHeader{Namespace: "x", Key: "k"}))
		require.Equal(t, codec.RespQueryNotFound, get("ns", "k").Code)
		put("ns", "k3", "v3")
		r.close()

		again := newRig(t, files, "")
		cl = again.dial()
		require.Equal(t, "v3", get("ns", "k3").Get("value"))
		require.Equal(t, "é\"", get("other", "k").Get("value"))
		require.Equal(t, codec.RespQueryNotFound, get("ns", "k").Code)
	})
}

func TestKVConfigReadsItsBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := vfs.NewMem()
		require.NoError(t, saveFile(files, "/ns/kvConfig.json", []byte(`{"configTable":{"ns":{"k":"old"}}}`)))
		require.NoError(t, saveFile(files, "/ns/kvConfig.json", []byte("\x00\x00\x00")))
		r := newRig(t, files, "")
		v, found := r.ns.kv.Get("ns", "k")
		require.True(t, found)
		require.Equal(t, "old", v)
	})
}

func TestKVConfigOfJava(t *testing.T) {
	files := vfs.NewMem()
	require.NoError(t, saveFile(files, "/ns/kvConfig.json",
		[]byte(`{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:8;broker-b:8"},"NOTHING":{},"NULL":null}}`)))
	m := NewKVConfigManager(files, "/ns/kvConfig.json", silent)
	require.NoError(t, m.Load())
	require.Equal(t, "broker-a:8;broker-b:8", m.orderConf([]byte("T")))
	table, found := m.Namespace("NOTHING")
	require.True(t, found)
	require.Empty(t, table)
}

// A change that cannot be written is refused and not in force.
func TestKVConfigDiskFull(t *testing.T) {
	mfs := vfs.NewMem()
	require.NoError(t, saveFile(mfs, "/ns/kvConfig.json", []byte(`{"configTable":{"ns":{"k":"old"}}}`)))
	bad := errorfs.Wrap(mfs, errorfs.MustParse(`(write err ENOSPC)`))
	m := NewKVConfigManager(bad, "/ns/kvConfig.json", silent)
	require.NoError(t, m.Load())
	require.Error(t, m.Put("ns", "k", "new"))
	require.Error(t, m.Delete("ns", "k"))
	v, _ := m.Get("ns", "k")
	require.Equal(t, "old", v)
}

func TestKVConfigHasALimit(t *testing.T) {
	m := NewKVConfigManager(vfs.NewMem(), "/ns/kvConfig.json", silent)
	require.NoError(t, m.Put("ns", "a", strings.Repeat("x", MaxKVBytes-10)))
	require.ErrorIs(t, m.Put("ns", "b", strings.Repeat("x", 100)), ErrKVFull)
	require.NoError(t, m.Delete("ns", "a"))
	require.NoError(t, m.Put("ns", "b", strings.Repeat("x", 100)))
}

func TestUpdateConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := vfs.NewMem()
		r := newRig(t, files, "# mine\nsupportActingMaster=false\n")
		cl := r.dial()
		update := func(text string) *codec.Command {
			req := codec.NewRequest(codec.ReqUpdateNamesrvConfig)
			req.Body = []byte(text)
			return call(t, cl, req)
		}
		show := func() map[string]string {
			out := map[string]string{}
			for line := range strings.Lines(string(ok(t, cl, codec.NewRequest(codec.ReqGetNamesrvConfig)).Body)) {
				k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
				out[k] = v
			}
			return out
		}
		before := show()
		require.Equal(t, "false", before["supportActingMaster"])
		require.Equal(t, "9876", before["listenPort"])

		f := func(text string, code int, remark string) {
			t.Helper()
			answer := update(text)
			require.Equal(t, code, answer.Code, answer.Remark)
			require.Contains(t, answer.Remark, remark)
			require.Equal(t, before, show(), "nothing is changed")
		}
		f("kvConfigPath=/etc/passwd", codec.RespNoPermission, "Can not update config in black list.")
		f("supportActingMaster=true\nconfigStorePath=/tmp/x", codec.RespNoPermission, "configStorePath")
		f("rocketmqHome=/x", codec.RespNoPermission, "rocketmqHome")
		f("configBlackList=", codec.RespNoPermission, "configBlackList")
		f("tls.server.keyPath=/x", codec.RespNoPermission, "tls.server.keyPath")
		f("supportActingMastr=true", codec.RespInvalidParameter, "did you mean supportActingMaster?")
		f("supportActingMaster=true\nwaitSecondsForService=soon", codec.RespInvalidParameter,
			"waitSecondsForService")
		f("enableTopicList=maybe", codec.RespInvalidParameter, "enableTopicList")
		f(`supportActingMaster=\u12`, codec.RespSystemError, "string2Properties error")
		f("", codec.RespSuccess, "")
		f("supportActingMaster=false", codec.RespSuccess, "")
		_, err := files.Stat("/ns/namesrv.conf")
		require.ErrorIs(t, err, fs.ErrNotExist)

		answer := update("supportActingMaster=true\ndefaultThreadPoolNums=4\n")
		require.Zero(t, answer.Code)
		require.Equal(t, "after a restart: defaultThreadPoolNums", answer.Remark)
		require.True(t, r.set.Namesrv().SupportActingMaster)
		after := maps.Clone(before)
		after["supportActingMaster"], after["defaultThreadPoolNums"] = "true", "4"
		require.Equal(t, after, show())
		text, err := vfs.ReadFile(files, "/ns/namesrv.conf")
		require.NoError(t, err)
		require.Contains(t, string(text), "# mine\nsupportActingMaster=true\n")
		require.Contains(t, string(text), "defaultThreadPoolNums=4\n")
	})
}

func TestUpdateConfigThatCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, errorfs.Wrap(vfs.NewMem(), errorfs.MustParse(`(write err ENOSPC)`)), "")
		req := codec.NewRequest(codec.ReqUpdateNamesrvConfig)
		req.Body = []byte("supportActingMaster=true")
		answer := call(t, r.dial(), req)
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Contains(t, answer.Remark, "could not be saved")
	})
}

func TestDataVersionAndMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "")
		cl := r.dial()
		query := func(id int64, v string) *codec.Command {
			req := request(codec.ReqQueryDataVersion, &codec.QueryDataVersionRequestHeader{BrokerName: "broker-a",
				BrokerAddr: "10.0.0.2:10911", ClusterName: "DefaultCluster", BrokerID: id})
			req.Body = []byte(v)
			return call(t, cl, req)
		}
		const version = `{"counter":3,"stateVersion":0,"timestamp":7}`
		answer := query(0, version)
		require.Equal(t, "true", answer.Get("changed"))
		require.Empty(t, answer.Body)
		a := brokerSays{addr: "10.0.0.2:10911", topics: []string{"T"},
			version: body.DataVersion{Counter: 3, Timestamp: 7}}
		ok(t, r.dial(), a.register())
		answer = query(0, version)
		require.Equal(t, "false", answer.Get("changed"))
		require.Equal(t, version, string(answer.Body))
		require.Equal(t, "true", query(1, version).Get("changed"))
		require.Equal(t, "true", query(0, `{"counter":4,"timestamp":7}`).Get("changed"))
		require.Equal(t, "true", query(0, "").Get("changed"))
		require.Equal(t, codec.RespSystemError, query(0, "{").Code)

		members := ok(t, cl, request(codec.ReqGetBrokerMemberGroup,
			&codec.GetBrokerMemberGroupRequestHeader{ClusterName: "DefaultCluster", BrokerName: "broker-a"}))
		require.Equal(t, `{"brokerMemberGroup":{"brokerAddrs":{0:"10.0.0.2:10911"},"brokerName":"broker-a",`+
			`"cluster":"DefaultCluster"}}`, string(members.Body))
	})
}

// Of several changes that wait for a target the last one counts, and the number of targets is bounded.
func TestNotifyServiceKeepsTheLastChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := mem.NewNetwork()
		target := listenAs(t, n, "10.0.0.9:1")
		log := &testlog.Text{}
		gate := make(chan struct{})
		s := NewNotifyService(client.New(client.Options{Dialer: gatedDialer{memDialer{n}, gate}}),
			slog.New(slog.NewTextHandler(log, nil)))
		defer s.Close()
		for id := range int64(5) {
			s.Submit([]MinBrokerIDChange{{BrokerName: "a", MinBrokerID: id, Targets: []string{"10.0.0.9:1"}}})
			synctest.Wait() // the first is on its way
		}
		close(gate)
		require.Equal(t, "0", (<-target.got).Get("minBrokerId"))
		require.Equal(t, "4", (<-target.got).Get("minBrokerId"))
		synctest.Wait()
		require.Empty(t, target.got)

		many := MinBrokerIDChange{BrokerName: "b"}
		for i := range maxPendingNotifications + 10 {
			many.Targets = append(many.Targets, fmt.Sprintf("10.0.0.8:%d", i+1))
		}
		s.Submit([]MinBrokerIDChange{many})
		synctest.Wait()
		require.Equal(t, 10, log.Count(errTooManyNotifications.Error()))
	})
}

// gatedDialer waits for its gate.
type gatedDialer struct {
	memDialer
	gate chan struct{}
}

func (d gatedDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	<-d.gate
	return d.memDialer.DialContext(ctx, network, addr)
}
