package namesrv

import (
	"bufio"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/config"
)

// script runs the commands of testdata/routes against one RouteInfoManager.
type script struct {
	m        *RouteInfoManager
	settings config.NamesrvConfig
	now      time.Time
}

func newScript() *script {
	s := &script{settings: *config.DefaultNamesrvConfig(), now: time.Unix(1_000_000, 0)}
	s.m = NewRouteInfoManager(func() *config.NamesrvConfig { return &s.settings })
	return s
}

func TestRoutes(t *testing.T) {
	datadriven.Walk(t, "testdata/routes", func(t *testing.T, path string) {
		s := newScript()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := s.run(t, d)
			checkInvariants(t, s.m)
			if out == "" {
				return "ok\n"
			}
			return out
		})
	})
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "set":
		return s.set(t, d)
	case "advance":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		require.NoError(t, err)
		s.now = s.now.Add(by)
		return ""
	case "register":
		return s.register(t, d)
	case "unregister":
		return effects(s.m.Unregister(identityOf(t, d)))
	case "close":
		return effects(s.m.ConnectionClosed(uint64(number(t, d, "conn", 1))))
	case "expire":
		next, eff := s.m.Expire(s.now)
		if next.IsZero() {
			return effects(eff)
		}
		return effects(eff) + fmt.Sprintf("next in %v\n", next.Sub(s.now))
	case "heartbeat":
		s.m.Heartbeat(text(t, d, "cluster", "C"), text(t, d, "addr", ""), s.now)
		return ""
	case "query-version":
		v := version(t, d)
		changed, known := s.m.QueryDataVersion(identityOf(t, d), &v, s.now)
		return fmt.Sprintf("changed=%v known=%s\n", changed, encode(t, known))
	case "wipe":
		return fmt.Sprintln(s.m.WipeWritePerm(text(t, d, "name", "a")))
	case "add-perm":
		return fmt.Sprintln(s.m.AddWritePerm(text(t, d, "name", "a")))
	case "delete-topic":
		return fmt.Sprintln(s.m.DeleteTopic(text(t, d, "topic", ""), text(t, d, "cluster", "")))
	case "register-topic":
		var queues []*body.QueueData
		given := topics(t, d.Input)
		for _, name := range slices.Sorted(maps.Keys(given)) {
			c := given[name]
			queues = append(queues, &body.QueueData{BrokerName: c.TopicName, Perm: c.Perm,
				ReadQueueNums: c.ReadQueueNums, WriteQueueNums: c.WriteQueueNums})
		}
		return effects(s.m.RegisterTopic(text(t, d, "topic", ""), queues))
	}
	return s.show(t, d)
}

func (s *script) show(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "route":
		r := s.m.Route(text(t, d, "topic", "T"))
		if zone := text(t, d, "zone", ""); zone != "" {
			FilterZone(r, zone)
		}
		return encode(t, r) + "\n"
	case "clusters":
		return encode(t, s.m.ClusterInfo()) + "\n"
	case "members":
		return encode(t, s.m.MemberGroup(text(t, d, "cluster", "C"), text(t, d, "name", "a"))) + "\n"
	case "topics":
		if d.HasArg("cluster") {
			return fmt.Sprintln(s.m.TopicsByCluster(text(t, d, "cluster", "")))
		}
		return fmt.Sprintln(s.m.AllTopics())
	case "unit-topics":
		f := func(bits, want int32) []string {
			return s.m.UnitTopics(func(flag int32) bool { return flag&bits == want })
		}
		return fmt.Sprintf("unit %v, unit sub %v\n", f(codec.TopicFlagUnit, codec.TopicFlagUnit),
			f(codec.TopicFlagUnitSub, codec.TopicFlagUnitSub))
	case "system-topics":
		return encode(t, s.m.SystemTopics()) + "\n"
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

func (s *script) set(t *testing.T, d *datadriven.TestData) string {
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "acting-master":
			s.settings.SupportActingMaster = a.Vals[0] == "on"
		case "notify":
			s.settings.NotifyMinBrokerIdChanged = a.Vals[0] == "on"
		case "delete-topics":
			s.settings.DeleteTopicWithBrokerRegistration = a.Vals[0] == "on"
		default:
			t.Fatalf("%s: unknown setting %s", d.Pos, a.Key)
		}
	}
	return ""
}

// register reads cluster, name, addr, id, ha, zone, conn, timeout, version=(state,timestamp,counter),
// acting=on|off (absent: an old broker), filter and mapping from the arguments, topics from the lines.
// "quiet" leaves the notes out.
func (s *script) register(t *testing.T, d *datadriven.TestData) string {
	r := &Registration{BrokerIdentity: identityOf(t, d), HAServerAddr: text(t, d, "ha", ""),
		ZoneName: text(t, d, "zone", ""), DataVersion: version(t, d), Topics: topics(t, d.Input),
		Conn: uint64(number(t, d, "conn", 1))}
	if d.HasArg("acting") {
		acting := text(t, d, "acting", "") == "on"
		r.ActingMaster = &acting
	}
	if d.HasArg("timeout") {
		timeout, err := time.ParseDuration(text(t, d, "timeout", ""))
		require.NoError(t, err)
		r.Timeout = timeout
	}
	if d.HasArg("filter") {
		r.FilterServers = []string{text(t, d, "filter", "")}
	}
	if topic := text(t, d, "mapping", ""); topic != "" {
		r.Mappings = map[string]*body.TopicQueueMappingInfo{topic: {BrokerName: r.Name, Topic: topic,
			CurrIDMap: map[int32]int32{0: 1}, Scope: codec.MetadataScopeGlobal, TotalQueues: 2}}
	}
	res, _, eff := s.m.Register(r, s.now)
	if d.HasArg("quiet") {
		eff.Notes = nil
	}
	out := [...]string{"registered", "ignored", "refused"}[res.Status]
	if res.Remark != "" {
		out += ": " + res.Remark
	}
	if res.MasterAddr != "" {
		out += fmt.Sprintf(" master=%s ha=%s", res.MasterAddr, res.HAServerAddr)
	}
	return out + "\n" + effects(eff)
}

// effects prints all that a change calls for.
func effects(eff Effects) string {
	var b strings.Builder
	for _, n := range eff.Notes {
		fmt.Fprintf(&b, "%v: %s", n.Level, n.Msg)
		for i := 0; i < len(n.Args); i += 2 {
			fmt.Fprintf(&b, " %v=%v", n.Args[i], n.Args[i+1])
		}
		b.WriteByte('\n')
	}
	for _, c := range eff.Changes {
		fmt.Fprintf(&b, "notify %v: %s min %d at %s", c.Targets, c.BrokerName, c.MinBrokerID, c.MinBrokerAddr)
		if c.OfflineAddr != "" {
			fmt.Fprintf(&b, " offline %s", c.OfflineAddr)
		}
		if c.HAAddr != "" {
			fmt.Fprintf(&b, " ha %s", c.HAAddr)
		}
		b.WriteByte('\n')
	}
	if eff.Gone != nil {
		fmt.Fprintf(&b, "gone %v\n", eff.Gone)
	}
	if eff.Close != nil {
		fmt.Fprintf(&b, "close connections %v\n", eff.Close)
	}
	return b.String()
}

func text(t *testing.T, d *datadriven.TestData, key, def string) string {
	if d.HasArg(key) {
		d.ScanArgs(t, key, &def)
	}
	return def
}

func number(t *testing.T, d *datadriven.TestData, key string, def int64) int64 {
	n, err := strconv.ParseInt(text(t, d, key, strconv.FormatInt(def, 10)), 10, 64)
	require.NoError(t, err)
	return n
}

func identityOf(t *testing.T, d *datadriven.TestData) BrokerIdentity {
	return identity(text(t, d, "cluster", "C"), text(t, d, "name", "a"), text(t, d, "addr", ""),
		number(t, d, "id", 0))
}

func version(t *testing.T, d *datadriven.TestData) (v body.DataVersion) {
	if d.HasArg("version") {
		d.ScanArgs(t, "version", &v.StateVersion, &v.Timestamp, &v.Counter)
	}
	return v
}

// topics reads lines "name queues perm [flag]".
func topics(t *testing.T, input string) map[string]*body.TopicConfig {
	out := map[string]*body.TopicConfig{}
	for sc := bufio.NewScanner(strings.NewReader(input)); sc.Scan(); {
		var name string
		var queues, perm, flag int32
		n, err := fmt.Sscan(sc.Text(), &name, &queues, &perm, &flag)
		require.True(t, n >= 3, "%q: %v", sc.Text(), err)
		out[name] = &body.TopicConfig{TopicName: name, ReadQueueNums: queues, WriteQueueNums: queues, Perm: perm,
			TopicSysFlag: flag}
	}
	return out
}

func encode(t *testing.T, v any) string {
	text, err := body.Encode(v)
	require.NoError(t, err)
	return string(text)
}

// checkInvariants looks at what must hold between the tables after every change.
func checkInvariants(t tester, m *RouteInfoManager) {
	t.Helper()
	entries, filters := 0, 0
	for name, b := range m.brokerAddrTable {
		require.Equal(t, name, b.data.BrokerName)
		require.NotEmpty(t, b.data.BrokerAddrs, "broker name %s without members", name)
		require.Contains(t, m.clusterAddrTable[b.data.Cluster], name)
		for id, addr := range b.data.BrokerAddrs {
			entries++
			require.NotNil(t, m.brokerLiveTable[addr], addr)
			require.Equal(t, identity(b.data.Cluster, name, addr, id), m.brokerLiveTable[addr].BrokerIdentity)
		}
		for topic := range b.topics {
			require.Contains(t, m.topicQueueTable[topic], name)
		}
	}
	require.Len(t, m.brokerLiveTable, entries, "every live address is somebody's")
	for addr, l := range m.brokerLiveTable {
		require.Equal(t, addr, l.Addr)
		require.Contains(t, m.byConn[l.conn], addr)
		if len(l.filterServers) > 0 {
			filters++
		}
	}
	require.Equal(t, filters, m.filterServers)
	owned := 0
	for conn, addrs := range m.byConn {
		require.NotEmpty(t, addrs, "connection %d owns nothing", conn)
		owned += len(addrs)
	}
	require.Equal(t, entries, owned)
	for topic, of := range m.topicQueueTable {
		require.NotEmpty(t, of, topic)
		for name, qd := range of {
			require.Equal(t, name, qd.BrokerName)
			require.Contains(t, m.brokerAddrTable[name].topics, topic)
		}
	}
	for cluster, names := range m.clusterAddrTable {
		require.NotEmpty(t, names, cluster)
		for name := range names {
			require.Equal(t, cluster, m.brokerAddrTable[name].data.Cluster)
		}
	}
	checkCache(t, m)
}

// checkCache compares what is cached with what the tables say.
func checkCache(t tester, m *RouteInfoManager) {
	t.Helper()
	for i := range m.cache.shards {
		s := &m.cache.shards[i]
		bytes := 0
		for topic, e := range s.byKey {
			for standard, text := range map[bool]*[]byte{true: e.standard.Load(), false: e.legacy.Load()} {
				if text == nil {
					continue
				}
				bytes += len(*text)
				if e.acting != m.settings().SupportActingMaster {
					continue
				}
				r := m.route(topic)
				require.NotNil(t, r, topic)
				r.OrderTopicConf = e.order
				want, err := encodeRoute(r, standard)
				require.NoError(t, err)
				require.Equal(t, string(want), string(*text), "stale route of %s", topic)
			}
		}
		require.Equal(t, bytes, s.bytes)
	}
	for topic := range m.topicQueueTable { // so that the next change finds all cached
		for _, standard := range []bool{true, false} {
			_, ok, err := m.EncodedRoute(topic, routeForm{standard: standard,
				acting: m.settings().SupportActingMaster}, true)
			require.True(t, ok)
			require.NoError(t, err)
		}
	}
}

// tester is testing.T and rapid.T.
type tester interface {
	require.TestingT
	Helper()
}
