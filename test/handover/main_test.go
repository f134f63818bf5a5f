//go:build interop

package handover

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"skylark/test/internal/rig"
)

var (
	flagPort = flag.Int("port", 28000, "port of the name server; brokers take up to 100 above")
	flagKeep = flag.String("keep", "", "directory for the stores and logs; they stay there")
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
	rig.QuickJVMs()
	goleak.VerifyTestMain(m)
}

func namesrvAddr() string { return rig.Local(*flagPort) }

// startNamesrv runs Skylark's name server for the whole test.
func startNamesrv(t *testing.T) {
	dir := rig.Scratch(t, *flagKeep)
	conf := filepath.Join(dir, "namesrv.conf")
	text := fmt.Sprintf("listenPort=%d\nbindAddress=127.0.0.1\nkvConfigPath=%[2]s/kvConfig.json\n"+
		"configStorePath=%[2]s/namesrv.properties\n", *flagPort, dir)
	require.NoError(t, os.WriteFile(conf, []byte(text), 0o644))
	p := startProcess(t, filepath.Join(dir, "namesrv.log"), namesrvAddr(), "namesrv", "-c", conf)
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
}
