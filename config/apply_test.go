package config

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const applyConf = `# head 注释
brokerName=a
fileReservedTime = 48
fileReservedTime = 72   # not a comment
  maxMessageSize=\
   4194304
messageDelayLevel=1s 5s
haListenPort=10999`

func loaded(t *testing.T) *Set {
	t.Helper()
	s := NewBrokerSet()
	_, err := s.Load(mustParse(t, strings.Replace(applyConf, "   # not a comment", "", 1)))
	require.NoError(t, err)
	return s
}

func TestApply(t *testing.T) {
	s := loaded(t)
	before := s.Store()
	got, err := s.Apply(map[string]string{
		"maxMessageSize":    " 65536 ",
		"messageDelayLevel": "1s 10s 中",
	}, nil)
	require.ErrorIs(t, err, ErrInvalid)
	require.EqualError(t, err, `messageDelayLevel=1s 10s 中: `+
		`"中" is not a number with one of the units s, m, h, d`)
	require.Nil(t, got)
	require.Equal(t, 4194304, s.Store().MaxMessageSize)

	got, err = s.Apply(map[string]string{
		"maxMessageSize":    " 65536 ",
		"messageDelayLevel": "1s 10s",
		"brokerName":        "a",
		"listenPort":        "10931",
		"slaveReadEnable":   "TRUE",
	}, BlackList("x; y"))
	require.NoError(t, err)
	require.Equal(t, Changes{
		{Key: "listenPort", Old: "10911", New: "10931"},
		{Key: "maxMessageSize", Old: "4194304", New: "65536", Live: true},
		{Key: "messageDelayLevel", Old: "1s 5s", New: "1s 10s"},
		{Key: "slaveReadEnable", Old: "false", New: "true", Live: true},
	}, got)
	require.Equal(t, []string{"listenPort", "messageDelayLevel"}, got.RestartKeys())

	require.Equal(t, 4194304, before.MaxMessageSize, "snapshots do not change")
	require.Equal(t, 65536, s.Store().MaxMessageSize)
	require.True(t, s.Broker().SlaveReadEnable)
	require.Equal(t, 10911, s.Server().ListenPort, "not live")
	require.Equal(t, "1s 5s", s.Store().MessageDelayLevel)
	require.Contains(t, s.Describe(), "listenPort=10931\n", "printed as saved")

	require.Equal(t, `# head 注释
brokerName=a
fileReservedTime = 48
fileReservedTime = 72
maxMessageSize=65536
messageDelayLevel=1s 10s
haListenPort=10999
listenPort=10931
slaveReadEnable=true
`, s.Text())

	again := NewBrokerSet()
	_, err = again.Load(mustParse(t, s.Text()))
	require.NoError(t, err)
	require.Equal(t, s.Describe(), again.Describe())
}

func TestApplyRefused(t *testing.T) {
	s := loaded(t)
	before := s.Describe()
	f := func(key, value, want string) {
		t.Helper()
		_, err := s.Apply(map[string]string{"slaveReadEnable": "true", key: value}, nil)
		require.ErrorIs(t, err, ErrInvalid)
		require.EqualError(t, err, want)
	}
	f("brokerPermission", "abc", "brokerPermission=abc: want a whole number from 0 to 7")
	f("brokerPermission", "-1", "brokerPermission=-1: want a whole number from 0 to 7")
	f("brokerPermission", "100", "brokerPermission=100: want a whole number from 0 to 7")
	f("maxMessageSize", "4m", "maxMessageSize=4m: want a whole number from 1 to 2147483647")
	f("maxMessageSize", "1099511627776",
		"maxMessageSize=1099511627776: want a whole number from 1 to 2147483647")
	f("MaxMessageSize", "1", "MaxMessageSize=1: unknown key; did you mean maxMessageSize?")
	f(" maxMessageSize", "1", " maxMessageSize=1: unknown key; did you mean maxMessageSize?")
	f("m\u0430xMessageSize", "1", "m\u0430xMessageSize=1: unknown key; did you mean maxMessageSize?")
	f("regionId", "a\r\nb", `regionId="a\r\nb": want text without control characters`)
	f("a\nb", "", `"a\nb"=: unknown key`)
	f("brokerName", "", "brokerName=: want a name")

	forbidden := func(want string, blackList []string, keys ...string) {
		t.Helper()
		changes := map[string]string{"slaveReadEnable": "true"}
		for _, k := range keys {
			changes[k] = "x"
		}
		_, err := s.Apply(changes, blackList)
		require.ErrorIs(t, err, ErrForbidden)
		require.EqualError(t, err, "config: no command may change "+want)
	}
	forbidden("brokerConfigPath", nil, "brokerConfigPath")
	forbidden("configBlackList, rocketmqHome", nil, "rocketmqHome", "configBlackList", "unknown")
	forbidden("storePathRootDir", nil, "storePathRootDir")
	forbidden("authenticationEnabled", nil, "authenticationEnabled")
	forbidden("tls.server.mode", nil, "tls.server.mode")
	forbidden("kvConfigPath", nil, "kvConfigPath")
	forbidden("slaveReadEnable", []string{"slaveReadEnable"})
	forbidden("haSlaveFallbehindMax", []string{"haMaxGapNotInSync"}, "haSlaveFallbehindMax")
	require.Equal(t, before, s.Describe())
}

func TestApplyConcurrently(t *testing.T) {
	s := loaded(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 50 {
				_, err := s.Apply(map[string]string{"fileReservedTime": string(rune('1' + i%9))}, nil)
				require.NoError(t, err)
			}
		})
		wg.Go(func() {
			for range 200 {
				require.Positive(t, s.Store().FileReservedTime)
				require.NotEmpty(t, s.Describe())
			}
		})
	}
	wg.Wait()
}

func TestEdited(t *testing.T) {
	f := func(text string, changes map[string]string, want string) {
		t.Helper()
		p := mustParse(t, text)
		got := p.Edited(changes)
		require.Equal(t, want, got)
		back := mustParse(t, got).Map()
		for k, v := range changes {
			require.Equal(t, v, back[k])
		}
	}
	f("", map[string]string{"b": "1", "a": "2"}, "a=2\nb=1\n")
	f("a=1\nb=2", map[string]string{"a": "x"}, "a=x\nb=2")
	f("a=1", map[string]string{"c": "中 \\ x"}, "a=1\nc=\\u4E2D \\\\ x\n")
	f("a=1\r\n", map[string]string{"c": "😀"}, "a=1\r\nc=\\uD83D\\uDE00\n")
	f("x=1\na=1\\\n  2\nx=3\n", map[string]string{"x": "9"}, "a=1\\\n  2\nx=9\n")
	f("a=1\n", map[string]string{"k y=:#": "v"}, "a=1\nk\\ y\\=\\:\\#=v\n")
	require.Equal(t, "a=1\n", (*File)(nil).Edited(map[string]string{"a": "1"}))
}

func FuzzParse(f *testing.F) {
	f.Add(applyConf)
	f.Add("a\\u0041=\\\r\n\\")
	f.Add("\xff\xfe=\\")
	f.Fuzz(func(t *testing.T, text string) {
		// No panic; editing nothing changes nothing; an edit reads back.
		p, err := Parse(text, "f")
		if err != nil {
			return
		}
		require.Equal(t, strings.TrimPrefix(text, "\ufeff"), p.Edited(nil))
		_, _ = NewBrokerSet().Load(p)
		edited, err := Parse(p.Edited(map[string]string{"zz": "7"}), "g")
		require.NoError(t, err)
		require.Equal(t, "7", edited.Map()["zz"])
	})
}
