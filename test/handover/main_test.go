//go:build interop

package handover

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	flagPort  = flag.Int("port", 28000, "port of the name server; brokers take up to 100 above")
	flagKnown = flag.Bool("known", false, "also run what is known to fail")
	flagKeep  = flag.String("keep", "", "directory for the stores and logs; they stay there")
)

// scenariosAtATime bounds the Java brokers that run at a time, with 256 MiB of heap each.
const scenariosAtATime = 5

// java49 is the newest 4.9 release whose server is published.
const java49 = "4.9.7"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(scenariosAtATime)); err != nil {
		panic(err)
	}
	// Brokers that live for seconds gain nothing from the optimizing compiler, which takes half of their CPU time.
	if err := os.Setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// workDir holds what is fetched and built once. It is shared with test/interop.
func workDir(t *testing.T) string {
	dir, err := filepath.Abs(envOr("INTEROP_WORK", "../interop/.work"))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

// skylarkBinary is the binary under test.
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

// scratch is a new directory for one relay.
func scratch(t *testing.T) string {
	if *flagKeep == "" {
		return t.TempDir()
	}
	dir, err := filepath.Abs(filepath.Join(*flagKeep, filepath.FromSlash(t.Name())))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

func namesrvAddr() string { return address(*flagPort) }

// startNamesrv runs Skylark's name server for the whole test.
func startNamesrv(t *testing.T) {
	dir := scratch(t)
	conf := filepath.Join(dir, "namesrv.conf")
	text := fmt.Sprintf("listenPort=%d\nbindAddress=127.0.0.1\nkvConfigPath=%[2]s/kvConfig.json\n"+
		"configStorePath=%[2]s/namesrv.properties\n", *flagPort, dir)
	require.NoError(t, os.WriteFile(conf, []byte(text), 0o644))
	p := startProcess(t, filepath.Join(dir, "namesrv.log"), skylarkBinary(t), "namesrv", "-c", conf)
	t.Cleanup(func() { p.kill() })
	p.awaitPort(t, namesrvAddr())
}
