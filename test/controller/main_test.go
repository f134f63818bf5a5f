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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/internal/javaoracle"
)

var (
	flagPort = flag.Int("port", 28600, "first of 100 ports for name server, controllers and brokers")
	flagKeep = flag.String("keep", "", "directory for stores and logs; they stay there")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Brokers that live for seconds gain nothing from the optimizing compiler.
	if err := os.Setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const (
	readyTimeout = 90 * time.Second
	killTimeout  = 30 * time.Second
)

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func workDir(t *testing.T) string {
	dir, err := filepath.Abs(envOr("INTEROP_WORK", "../interop/.work"))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

func skylarkBinary(t *testing.T) string {
	bin, err := filepath.Abs(envOr("SKYLARK", "../../bin/skylark"))
	require.NoError(t, err)
	if _, err := os.Stat(bin); err != nil {
		require.Empty(t, os.Getenv("SKYLARK"), "SKYLARK names no file: %v", err)
		bin = filepath.Join(workDir(t), "skylark")
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "skylark/cmd/skylark").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return bin
}

func scratch(t *testing.T) string {
	if *flagKeep == "" {
		return t.TempDir()
	}
	dir, err := filepath.Abs(filepath.Join(*flagKeep, t.Name()))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

func address(offset int) string { return "127.0.0.1:" + strconv.Itoa(*flagPort+offset) }

// process is a Skylark that runs.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	log  string
}

// startSkylark writes a configuration and starts the binary with it.
func startSkylark(t *testing.T, dir, command, name, conf string) *process {
	t.Helper()
	file := filepath.Join(dir, name+".conf")
	require.NoError(t, os.WriteFile(file, []byte(conf), 0o644))
	log := filepath.Join(dir, name+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer out.Close()
	p := &process{cmd: exec.Command(skylarkBinary(t), command, "-c", file), done: make(chan struct{}), log: log}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // ends by a signal
		close(p.done)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("%s:\n%s", name, text[max(0, len(text)-4000):])
		}
		p.kill(syscall.SIGKILL)
	})
	return p
}

func (p *process) kill(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig) // of one that may have ended
	<-p.done
}

func (p *process) Pid() int    { return p.cmd.Process.Pid }
func (p *process) Kill() error { p.kill(syscall.SIGKILL); return nil }
func (p *process) Stop() error { p.kill(syscall.SIGTERM); return nil }

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
	s := javaoracle.Server{CacheDir: workDir(t), Dir: dir, Namesrv: address(0), BrokerPort: *flagPort + port,
		Properties: brokerProperties(name), HeapMiB: 256}
	p, err := s.StartBroker(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	return p
}

// mqadmin runs the real one and gives what it prints.
func mqadmin(t *testing.T, dir string, args ...string) string {
	t.Helper()
	lib, err := javaoracle.Jars(t.Context(), workDir(t), javaoracle.Version53)
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
