package config

import (
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ourDefaults are the keys whose default differs from Java's on purpose: docs/compat.md.
var ourDefaults = map[string]string{"transferMsgByHeap": "false", "controllerHeartBeatTimeoutMills": "2500",
	"haMaxTimeSlaveNotCatchup": "2000"}

// TestDefaultsAgainstJava compares with the fields of new BrokerConfig() and so on, read by reflection from
// the released jars of 5.3.3: class, key, type, value, whether Java marks it important.
func TestDefaultsAgainstJava(t *testing.T) {
	objs := map[string]any{
		"BrokerConfig":       DefaultBrokerConfig(),
		"MessageStoreConfig": DefaultMessageStoreConfig(),
		"NettyServerConfig":  DefaultNettyServerConfig(),
		"NettyClientConfig":  DefaultNettyClientConfig(),
		"NamesrvConfig":      DefaultNamesrvConfig(),
		"ControllerConfig":   DefaultControllerConfig(),
		"AuthConfig":         DefaultAuthConfig(),
	}
	javaTypes := map[reflect.Kind]string{
		reflect.Int: "int", reflect.Int64: "long", reflect.Bool: "boolean", reflect.Float64: "double",
	}
	data, err := os.ReadFile("testdata/java-5.3.3-defaults.tsv")
	require.NoError(t, err)
	next := map[string]int{}
	for line := range strings.Lines(string(data)) {
		p := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		class, key, javaType, value := p[0], p[1], p[2], p[3]
		sc := schemaOf(objs[class])
		f, ok := sc.find(key)
		require.True(t, ok, "%s.%s", class, key)
		require.Equal(t, key, f.key)
		if want, ok := javaTypes[f.kind]; ok {
			require.Equal(t, want, javaType, key)
		}
		if own, ok := ourDefaults[key]; ok {
			value = own
		}
		if !strings.HasPrefix(value, "<") {
			require.Equal(t, value, f.get(objs[class]), key)
		}
		if class != "NettyServerConfig" || key != "listenPort" { // important in BrokerConfig
			require.Equal(t, p[4] == "important", importantKeys[key], key)
		}
		require.GreaterOrEqual(t, sc.byKey[key], next[class], "%s stands before %s in Java", key, class)
		next[class] = sc.byKey[key]
	}
	cpu := runtime.GOMAXPROCS(0)
	require.Equal(t, min(cpu, 4), DefaultBrokerConfig().SendMessageThreadPoolNums)
	require.Equal(t, 16+2*cpu, DefaultBrokerConfig().PullMessageThreadPoolNums)
	require.NotEmpty(t, DefaultBrokerConfig().BrokerName)
}

// TestParseAgainstJava compares with what java.util.Properties.load made of the same texts: the text, then
// keys and trimmed values, all quoted.
func TestParseAgainstJava(t *testing.T) {
	data, err := os.ReadFile("testdata/java-properties.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		var parts []string
		for p := range strings.SplitSeq(strings.TrimSuffix(line, "\n"), "\t") {
			s, err := strconv.Unquote(p)
			require.NoError(t, err, p)
			parts = append(parts, s)
		}
		want := map[string]string{}
		for i := 1; i < len(parts); i += 2 {
			want[parts[i]] = parts[i+1]
		}
		f, err := Parse(parts[0], "f")
		if len(want) == 1 && parts[1] == "" {
			require.Error(t, err, "an empty key is an error here")
			continue
		}
		require.NoError(t, err, "%q", parts[0])
		require.Equal(t, want, f.Map(), "%q", parts[0])
	}
}

// TestTags looks at what newField cannot see: every default fits, and no struct names a key of another by
// mistake.
func TestTags(t *testing.T) {
	shared := map[string]bool{
		"listenPort": true, "writeBufferHighWaterMark": true, "writeBufferLowWaterMark": true,
	}
	seen := map[string]bool{}
	for _, obj := range NewBrokerSet().next {
		for _, f := range schemaOf(obj).fields {
			require.True(t, !seen[f.key] || shared[f.key], f.key)
			seen[f.key] = true
			require.Empty(t, f.set(clone(obj), f.get(obj)), f.key)
			require.False(t, f.live && f.fixed, f.key)
			require.LessOrEqual(t, f.lo, f.hi, f.key)
		}
	}
}
