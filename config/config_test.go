package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func mustParse(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse(text, "broker.conf")
	require.NoError(t, err)
	return f
}

func TestParse(t *testing.T) {
	f := func(text, key, value string, line int) {
		t.Helper()
		p := mustParse(t, text)
		require.Len(t, p.Entries, 1)
		e := p.Entries[0]
		require.Equal(t, []any{key, value, line}, []any{e.Key, e.Value, e.Line})
	}
	f("a=b", "a", "b", 1)
	f("\ufeffa=b", "a", "b", 1)
	f("# c\n! d\n\n  a = b  \r\n", "a", "b", 4)
	f("a:b:c", "a", "b:c", 1)
	f("a b=c", "a", "b=c", 1)
	f("a=\\u4e2d\\t\\\\x", "a", "中\t\\x", 1)
	f("a=${HOME} $x", "a", "${HOME} $x", 1)
	f("a=1,\\\n   2,\\\r\n\t3", "a", "1,2,3", 1)
	f("a=1\\\\\n#b", "a", "1\\", 1)
	f("\n# x \\\na=1", "a", "1", 3)
	f("a\\ b\\=c=d", "a b=c", "d", 1)
	f("messageDelayLevel = 1s 5s 1m\t2h ", "messageDelayLevel", "1s 5s 1m\t2h", 1)
	f("# 注释\nname=中文 值", "name", "中文 值", 2)
	f("# \xd6\xd0 GBK comment\nname=x\xe9", "name", "xé", 2)
	f("a=", "a", "", 1)
	f("a", "a", "", 1)
}

func TestParseErrors(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := Parse(text, "x.conf")
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, want)
	}
	f("ok=1\n\nbad=\\u12", "x.conf:3: cannot be read")
	f(strings.Repeat("a", maxFileBytes+1), "larger than")
	f(strings.Repeat("a=1\n", maxEntries+1), "more than 4096 keys")
}

func TestLoadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broker.conf")
	text := "# 集群 一\nbrokerName=订单-a\nmessageDelayLevel=1s \\\n  5s\nlistenPort=10921\n" +
		"brokerIP1 = 10.0.0.1 \n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	f, err := LoadFile(path)
	require.NoError(t, err)
	s := NewBrokerSet()
	warnings, err := s.Load(f)
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, "订单-a", s.Broker().BrokerName)
	require.Equal(t, "10.0.0.1", s.Broker().BrokerIP1)
	require.Equal(t, "1s 5s", s.Store().MessageDelayLevel)
	require.Equal(t, 10921, s.Server().ListenPort)
	require.Equal(t, 10921, s.Broker().ListenPort)
	require.Equal(t, 10922, s.Store().HaListenPort)
	require.Equal(t, path, s.Broker().BrokerConfigPath)

	_, err = LoadFile(path + ".absent")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestLoadReportsEverything(t *testing.T) {
	s := NewBrokerSet()
	_, err := s.Load(mustParse(t, strings.Join([]string{
		"maxMessageSize=4m",
		"brokerPermission=8",
		"slaveReadEnable=yes",
		"flushDiskType=sync_flush",
		"logicalDiskSpaceCleanForciblyThreshold=80",
		"waitTimeMillsInSendQueue=9223372036854775808",
		"brokerName=a\\nb",
		"listenPort=70000",
	}, "\n")))
	require.ErrorIs(t, err, ErrInvalid)
	require.Equal(t, `broker.conf:1: maxMessageSize=4m: want a whole number from 1 to 2147483647
broker.conf:2: brokerPermission=8: want a whole number from 0 to 7
broker.conf:3: slaveReadEnable=yes: want true or false
broker.conf:4: flushDiskType=sync_flush: want one of SYNC_FLUSH, ASYNC_FLUSH
broker.conf:5: logicalDiskSpaceCleanForciblyThreshold=80: want a number from 0 to 1
broker.conf:6: waitTimeMillsInSendQueue=9223372036854775808: want a whole number from 1 to 9223372036854775807
broker.conf:7: brokerName="a\nb": want text without control characters
broker.conf:8: listenPort=70000: want a whole number from 0 to 65535`, err.Error())
	require.Equal(t, 4194304, s.Store().MaxMessageSize, "nothing is taken over")
}

func TestLoadChecks(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		s := NewBrokerSet()
		_, err := s.Load(mustParse(t, text))
		require.EqualError(t, err, want)
	}
	f("brokerRole=SLAVE", "broker.conf: brokerId=0: want a number above 0 for a slave")
	f("\nbrokerRole=SLAVE\nbrokerId=0", "broker.conf:3: brokerId=0: want a number above 0 for a slave")
	f("namesrvAddr=a:1;b", `broker.conf:1: namesrvAddr=a:1;b: "b" is not host:port`)
	f("messageDelayLevel=1s 5x",
		`broker.conf:1: messageDelayLevel=1s 5x: "5x" is not a number with one of the units s, m, h, d`)
	f("deleteWhen=4", `broker.conf:1: deleteWhen=4: "4" is not an hour from 00 to 23`)
	f("haListenPort=10909",
		"broker.conf:1: haListenPort=10909: want a port other than listenPort and listenPort - 2")
	f("listenPort=65535", "broker.conf:1: listenPort=65535: want less, for haListenPort is listenPort + 1")
	f("listenPort=2", "broker.conf:1: listenPort=2: want at least 3: the fast port is listenPort - 2")
	f("advertiseAddr=x:0", `broker.conf:1: advertiseAddr=x:0: "x:0" has no port from 1 to 65535`)
	f("outboundLowWatermark=8388608",
		"broker.conf:1: outboundLowWatermark=8388608: want less than outboundHighWatermark=8388608")
	f("enableControllerMode=true",
		"broker.conf: controllerAddr=: want the addresses of the controllers for enableControllerMode=true")
	f("enableControllerMode=true\ncontrollerAddr=a:1\nenableDLegerCommitLog=true",
		"broker.conf:3: enableDLegerCommitLog=true: want false together with enableControllerMode=true")
	f("haAckRule=majority\ntotalReplicas=3", "broker.conf:1: haAckRule=majority: want enableControllerMode=true: who has the "+
		"majority's messages is known by controllers")
	f("haAckRule=majority\ncontrollerAddr=a:1\nenableControllerMode=true", "broker.conf: totalReplicas=1: want the number of "+
		"replicas, 3 or more, with haAckRule=majority: more than half of two are both")
	f("tls.server.mode=enforcing\ntls.test.mode.enable=false", "broker.conf:1: tls.server.mode=enforcing: "+
		"want tls.server.keyPath and tls.server.certPath, or tls.test.mode.enable=true")
}

func TestLoadWarnings(t *testing.T) {
	s := NewBrokerSet()
	warnings, err := s.Load(mustParse(t, strings.Join([]string{
		"waitTimeMillisInSendQueue=500",
		"BrokerName=x",
		"somethingElseAltogether=1",
		"fileReservedTime=48",
		"fileReservedTime=72",
		"aclSecretKey=hush",
		"haSlaveFallbehindMax=1000",
		"isScanAvailableNameSrv=false",
	}, "\n")))
	require.NoError(t, err)
	var got []string
	for _, w := range warnings {
		got = append(got, w.String())
	}
	require.Equal(t, []string{
		"broker.conf:1: waitTimeMillisInSendQueue=500: unknown key; did you mean waitTimeMillsInSendQueue?",
		"broker.conf:2: BrokerName=x: unknown key; did you mean brokerName?",
		"broker.conf:3: somethingElseAltogether=1: unknown key",
		"broker.conf:5: fileReservedTime=72: stands in line 4 already; this one counts",
		"broker.conf:6: aclSecretKey=******: unknown key",
	}, got)
	require.Equal(t, 72, s.Store().FileReservedTime)
	require.Equal(t, 1000, s.Store().HaMaxGapNotInSync)
	require.False(t, s.Client().IsScanAvailableNameSrv)
	require.Contains(t, s.Describe(), "somethingElseAltogether=1\n")
	require.NotContains(t, s.Describe(), "hush")
}

func TestSettleBroker(t *testing.T) {
	s := NewBrokerSet()
	_, err := s.Load(nil)
	require.NoError(t, err)
	require.Equal(t, 10911, s.Server().ListenPort)
	require.Equal(t, 10912, s.Store().HaListenPort)

	s = NewBrokerSet()
	_, err = s.Load(mustParse(t, "brokerRole=SLAVE\nbrokerId=2"))
	require.NoError(t, err)
	require.Equal(t, 30, s.Store().AccessMessageInMemoryMaxRatio)
	require.EqualValues(t, 2, s.Broker().BrokerId)

	s = NewBrokerSet()
	_, err = s.Load(mustParse(t, "brokerId=2\nmetricsExporterType=2"))
	require.NoError(t, err)
	require.EqualValues(t, 0, s.Broker().BrokerId, "a master without controller has id 0")
	require.Equal(t, MetricsProm, s.Broker().MetricsExporterType)
}

func TestEnvironment(t *testing.T) {
	t.Setenv(EnvNamesrvAddr, "10.0.0.1:9876")
	t.Setenv(EnvRocketmqHome, "/opt/rmq")
	t.Setenv("HOME", "/home/u")
	require.Equal(t, "10.0.0.1:9876", DefaultBrokerConfig().NamesrvAddr)
	require.Equal(t, "/opt/rmq", DefaultNamesrvConfig().RocketmqHome)
	require.Equal(t, "/home/u/store", DefaultMessageStoreConfig().StorePathRootDir)
	require.Equal(t, "/home/u/namesrv/kvConfig.json", DefaultNamesrvConfig().KvConfigPath)
	require.Equal(t, "/home/u/controller/controller.properties", DefaultControllerConfig().ConfigStorePath)
}

func TestOtherServers(t *testing.T) {
	s := NewNamesrvSet()
	w, err := s.Load(mustParse(t, "listenPort=9877\norderMessageEnable=true\nenableControllerInNamesrv=true\n"+
		"controllerDLegerPeers=n0-a:1"))
	require.NoError(t, err)
	require.Empty(t, w)
	require.Equal(t, 9877, s.Server().ListenPort)
	require.True(t, s.Namesrv().OrderMessageEnable)
	require.Equal(t, "n0-a:1", s.Controller().ControllerDLegerPeers)
	path, _ := s.Lookup("configStorePath")
	require.Equal(t, "broker.conf", path)
	require.Panics(t, func() { s.Broker() })

	s = NewControllerSet()
	_, err = s.Load(mustParse(t, "jRaftGroupId=g\nprocessReadEvent=true\ncontrollerType=jRaft"))
	require.NoError(t, err)
	require.Equal(t, "g", s.Controller().JRaftGroupId)
	require.True(t, s.Controller().IsProcessReadEvent)
}

func TestDescribeAndPrint(t *testing.T) {
	s := NewBrokerSet()
	_, err := s.Load(mustParse(t, "brokerName=a\nmetricsGrpcExporterHeader=token:x\nlistenPort=10921"))
	require.NoError(t, err)
	text := s.Describe()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	require.IsIncreasing(t, lines)
	require.Contains(t, lines, "brokerName=a")
	require.Contains(t, lines, "listenPort=10921")
	require.Contains(t, lines, "metricsGrpcExporterHeader=******")
	require.Contains(t, lines, "messageDelayLevel="+defaultDelayLevels)
	require.NotContains(t, text, "storePathCommitLog=")
	require.Equal(t, 1, strings.Count(text, "listenPort="))

	var all, some bytes.Buffer
	require.NoError(t, s.Print(&all, false))
	require.True(t, strings.HasPrefix(all.String(),
		"brokerName=a\nbrokerClusterName=DefaultCluster\nbrokerId=0\n"))
	require.Contains(t, all.String(), "storePathCommitLog=\n")
	require.NoError(t, s.Print(&some, true))
	require.Contains(t, some.String(), "flushDiskType=ASYNC_FLUSH\n")
	require.NotContains(t, some.String(), "osPageCacheBusyTimeOutMills")
	require.Equal(t, len(importantKeys), strings.Count(some.String(), "\n"))
}

func TestAddresses(t *testing.T) {
	got, err := SplitAddrs(" a:9876 ;b:1;; a:9876;[::1]:2;")
	require.NoError(t, err)
	require.Equal(t, []string{"a:9876", "b:1", "[::1]:2"}, got)
	got, err = SplitAddrs("")
	require.NoError(t, err)
	require.Empty(t, got)
	for _, bad := range []string{"a", ":1", "a:", "a:x", "a:65536", "a:0", "::1:2", "a b:1", "http://a:1"} {
		_, err = SplitAddrs(bad)
		require.Error(t, err, bad)
	}
	levels, err := DelayLevels("1s 5m  2h 1d")
	require.NoError(t, err)
	require.Equal(t, []time.Duration{time.Second, 5 * time.Minute, 2 * time.Hour, 24 * time.Hour}, levels)
	for _, bad := range []string{"", "s", "1", "-1s", "1s,5s", "99999999999s"} {
		_, err = DelayLevels(bad)
		require.Error(t, err, bad)
	}
	hours, err := Hours("04;16; 23")
	require.NoError(t, err)
	require.Equal(t, []int{4, 16, 23}, hours)
	for _, bad := range []string{"", "4", "24", "-1", "xx"} {
		_, err = Hours(bad)
		require.Error(t, err, bad)
	}
}

// What the program sets runs and is shown, over a file and over changes, and is not saved.
func TestOverride(t *testing.T) {
	s := NewBrokerSet()
	f, err := Parse("brokerName=b1\nnamesrvAddr=10.0.0.1:9876\n", "test.conf")
	require.NoError(t, err)
	_, err = s.Load(f)
	require.NoError(t, err)
	s.Override("namesrvAddr", "127.0.0.1:1234")
	s.Override("storePathRootDir", "/data/store")
	require.Equal(t, "127.0.0.1:1234", s.Broker().NamesrvAddr)
	require.Equal(t, "/data/store", s.Store().StorePathRootDir)
	_, err = s.Apply(map[string]string{"traceOn": "false"}, nil)
	require.NoError(t, err)
	require.Contains(t, s.Describe(), "\nnamesrvAddr=127.0.0.1:1234\n")
	require.Contains(t, s.Describe(), "\nstorePathRootDir=/data/store\n")
	require.Equal(t, "127.0.0.1:1234", s.Broker().NamesrvAddr)
	require.Contains(t, s.Text(), "namesrvAddr=10.0.0.1:9876")
	require.NotContains(t, s.Text(), "1234")
	require.Panics(t, func() { s.Override("noSuchKey", "1") })
	require.Panics(t, func() { s.Override("listenPort", "many") })
}
