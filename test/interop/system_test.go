//go:build interop

package interop

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/javaoracle"
)

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 40 * time.Second
)

// system is what the clients talk to.
type system struct {
	namesrv, cluster, brokerName, broker string

	stop func() error
	log  string
}

// brokerProperties are what the scenarios ask for, under Java's names.
const brokerProperties = `brokerClusterName=DefaultCluster
brokerName=broker-a
brokerIP1=127.0.0.1
autoCreateTopicEnable=true
autoCreateSubscriptionGroup=true
enablePropertyFilter=true
transactionTimeOut=3000
transactionCheckInterval=3000
traceTopicEnable=true
recallMessageEnable=true
mappedFileSizeCommitLog=67108864
diskMaxUsedSpaceRatio=95
`

// startSystem starts what the flags ask for and waits until a broker is registered.
func startSystem(t *testing.T, w *work) *system {
	sys := &system{namesrv: *flagNamesrv, stop: func() error { return nil }}
	switch {
	case sys.namesrv != "":
	case *flagTarget == "java":
		startJava(t, w, sys)
	case *flagTarget == "skylark":
		startSkylark(t, w, sys)
	default:
		require.Fail(t, "-target", "neither skylark nor java: %q", *flagTarget)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	end := time.After(readyTimeout)
	for err := sys.discover(); err != nil; err = sys.discover() {
		select {
		case <-tick.C:
		case <-end:
			sys.showLog()
			require.NoError(t, err, "no broker is registered at %s", sys.namesrv)
		}
	}
	fmt.Printf("name server %s, broker %s %s of %s\n", sys.namesrv, sys.brokerName, sys.broker, sys.cluster)
	return sys
}

func startSkylark(t *testing.T, w *work, sys *system) {
	bin := envOr("SKYLARK", filepath.Join(w.here, "../../bin/skylark"))
	if _, err := os.Stat(bin); err != nil {
		require.Empty(t, os.Getenv("SKYLARK"), "SKYLARK names no file: %v", err)
		bin = w.sub("skylark")
		w.execute(t, filepath.Join(w.here, "../.."), "go", "build", "-o", bin, "./cmd/skylark")
	}
	dir := t.TempDir()
	conf, nsConf := filepath.Join(dir, "broker.conf"), filepath.Join(dir, "namesrv.conf")
	text := brokerProperties + "listenPort=" + strconv.Itoa(*flagPort+11) + "\n"
	require.NoError(t, os.WriteFile(conf, []byte(text), 0o644))
	require.NoError(t, os.WriteFile(nsConf, []byte("orderMessageEnable=true\n"), 0o644))
	sys.namesrv = "127.0.0.1:" + strconv.Itoa(*flagPort)
	sys.log = filepath.Join(w.sub("log"), "skylark.log")
	out, err := os.Create(sys.log)
	require.NoError(t, err)
	defer out.Close()
	cmd := exec.Command(bin, "standalone", "--data", filepath.Join(dir, "data"), "-c", conf,
		"--namesrv-conf", nsConf, "--namesrv-port", strconv.Itoa(*flagPort))
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop := func() error {
		select {
		case err := <-ended:
			return fmt.Errorf("skylark had ended before: %v", err)
		default:
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		select {
		case err := <-ended:
			return err
		case <-time.After(stopTimeout):
			return errors.Join(errors.New("skylark does not end on SIGTERM"), cmd.Process.Kill())
		}
	}
	stopped := false
	sys.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		return stop()
	}
	t.Cleanup(func() { sys.stop() }) // when the test ends early
}

func startJava(t *testing.T, w *work, sys *system) {
	s := javaoracle.Server{CacheDir: w.dir, Dir: t.TempDir(), NamesrvPort: *flagPort,
		BrokerPort: *flagPort + 11}
	ns, err := s.StartNamesrv(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { ns.Stop() })
	b, err := s.StartBroker(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { b.Stop() })
	sys.namesrv = "127.0.0.1:" + strconv.Itoa(*flagPort)
	sys.log = filepath.Join(s.Dir, "broker.log")
}

// showLog prints the end of the server's log.
func (s *system) showLog() {
	if s.log != "" {
		fmt.Printf("--- end of %s\n%s\n---\n", s.log, tailOf(s.log))
	}
}

var (
	clusterKey = regexp.MustCompile(`"cluster":"([^"]+)"`)
	nameKey    = regexp.MustCompile(`"brokerName":"([^"]+)"`)
	masterKey  = regexp.MustCompile(`"brokerAddrs":\{[^}]*"?\b0"?:"([^"]+)"`)
)

// discover asks the name server for its brokers (GET_BROKER_CLUSTER_INFO, 106) and takes the first master.
// The answer is no standard JSON, its map has numbers as keys: three expressions are enough to read it.
func (s *system) discover() error {
	body, err := ask(s.namesrv, 106)
	if err != nil {
		return err
	}
	fields := map[*regexp.Regexp]*string{clusterKey: &s.cluster, nameKey: &s.brokerName, masterKey: &s.broker}
	for key, field := range fields {
		m := key.FindSubmatch(body)
		if m == nil {
			return fmt.Errorf("no %s in %q", key, body)
		}
		*field = string(m[1])
	}
	return nil
}

// ask sends a request without fields and returns the body of the answer.
func ask(addr string, code int) ([]byte, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(3 * time.Second))
	header := fmt.Sprintf(`{"code":%d,"flag":0,"language":"JAVA","opaque":1,"version":479}`, code)
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(header)))
	if _, err := c.Write(append(frame, header...)); err != nil {
		return nil, err
	}
	var sizes [8]byte
	if _, err := io.ReadFull(c, sizes[:]); err != nil {
		return nil, err
	}
	rest := make([]byte, min(binary.BigEndian.Uint32(sizes[:4])-4, 1<<20))
	if _, err := io.ReadFull(c, rest); err != nil {
		return nil, err
	}
	headerLen := min(int(binary.BigEndian.Uint32(sizes[4:])&0xFFFFFF), len(rest))
	var answer struct {
		Code   int    `json:"code"`
		Remark string `json:"remark"`
	}
	if sizes[4] == 0 { // a JSON header
		if err := json.Unmarshal(rest[:headerLen], &answer); err != nil {
			return nil, err
		}
		if answer.Code != 0 {
			return nil, fmt.Errorf("code %d %s", answer.Code, answer.Remark)
		}
	}
	return rest[headerLen:], nil
}
