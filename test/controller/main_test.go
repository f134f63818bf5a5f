//go:build interop

package controller

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/internal/javaoracle"
	"skylark/test/internal/rig"
)

var (
	flagPort = flag.Int("port", 28600, "first of 100 ports for name server, controllers and brokers")
	flagKeep = flag.String("keep", "", "directory for stores and logs; they stay there")
)

func TestMain(m *testing.M) {
	flag.Parse()
	rig.QuickJVMs()
	goleak.VerifyTestMain(m)
}

const (
	readyTimeout = 90 * time.Second
	killTimeout  = 30 * time.Second
)

func address(offset int) string { return rig.Local(*flagPort + offset) }

// startSkylark writes a configuration and starts the binary with it.
func startSkylark(t *testing.T, dir, command, name, conf string) *rig.Process {
	t.Helper()
	file := filepath.Join(dir, name+".conf")
	require.NoError(t, os.WriteFile(file, []byte(conf), 0o644))
	p, err := rig.Start(filepath.Join(dir, name+".log"), rig.Binary(t), command, "-c", file)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", name, p.Tail())
		}
		require.NoError(t, p.Kill())
	})
	return p
}

// brokers' settings that this test wants.
func brokerProperties(name string) map[string]string {
	return map[string]string{
		"brokerName": name, "enableControllerMode": "true", "controllerAddr": controllerAddrs(),
		"mappedFileSizeCommitLog": "16777216", "mappedFileSizeConsumeQueue": "60000",
		"diskMaxUsedSpaceRatio": "95",
		"allAckInSyncStateSet":  "true",
		"inSyncReplicas":        "2", "minInSyncReplicas": "1", "timerWheelEnable": "false", "traceTopicEnable": "false",
		"maxHashSlotNum": "1000", "maxIndexNum": "4000", "haSendHeartbeatInterval": "1000",
	}
}

func startBroker(t *testing.T, dir, name string, port int) *javaoracle.Process {
	t.Helper()
	s := javaoracle.Server{CacheDir: rig.WorkDir(t), Dir: dir, Namesrv: address(0), BrokerPort: *flagPort + port,
		Properties: brokerProperties(name), HeapMiB: 256}
	p, err := s.StartBroker(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	return p
}

// mqadmin runs the real one and gives what it prints.
func mqadmin(t *testing.T, dir string, args ...string) string {
	t.Helper()
	lib, err := javaoracle.Jars(t.Context(), rig.WorkDir(t), javaoracle.Version53)
	require.NoError(t, err)
	java := []string{"-XX:+UseSerialGC", "-Xmx128m", "-Duser.home=" + filepath.Join(dir, "admin"),
		"-Drocketmq.namesrv.addr=" + address(0), "-Drocketmq.home.dir=" + dir, "-cp",
		lib + "/*", "org.apache.rocketmq.tools.command.MQAdminStartup"}
	out, err := exec.CommandContext(t.Context(), "java", append(java, args...)...).CombinedOutput()
	if ended := (*exec.ExitError)(nil); !errors.As(err, &ended) { // a refused command may end with a code
		require.NoError(t, err, "%s", out)
	}
	var text string
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, " |-") { // of logback about itself
			text += line
		}
	}
	t.Logf("mqadmin %s\n%s", strings.Join(args, " "), text)
	return text
}

// printed looks for a line of mqadmin's output: its words with any blanks between.
func printed(t *testing.T, text string, words ...string) {
	t.Helper()
	for i := range words {
		words[i] = regexp.QuoteMeta(words[i])
	}
	require.Regexp(t, regexp.MustCompile(`(?m)`+strings.Join(words, `\s+`)), text)
}

func controllerPeers() string {
	return fmt.Sprintf("n0-%s;n1-%s;n2-%s", address(1), address(2), address(3))
}

func controllerAddrs() string { return address(1) + ";" + address(2) + ";" + address(3) }
