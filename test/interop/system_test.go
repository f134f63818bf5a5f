//go:build interop

package interop

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/freeport"
	"skylark/internal/javaoracle"
	"skylark/test/internal/rig"
)

// brokerAbove is how far a broker's port is above the name server's.
const brokerAbove = 11

const readyTimeout = 60 * time.Second

// system is what the clients talk to.
type system struct {
	namesrv, cluster, brokerName, broker string

	stop  func() error
	ended func() error    // not nil once the started process has ended by itself
	done  <-chan struct{} // closed then; nil if no process was started
	log   string
}

// brokerProperties are what the scenarios ask for, under Java's names.
const brokerProperties = `brokerClusterName=DefaultCluster
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
	sys := &system{namesrv: *flagNamesrv, stop: func() error { return nil }, ended: func() error { return nil }}
	want := "" // the broker's name, so that nobody else's system is taken for ours
	switch {
	case sys.namesrv != "":
	case *flagTarget == "java":
		want = startJava(t, w, sys)
	case *flagTarget == "skylark":
		want = startSkylark(t, w, sys)
	default:
		require.Fail(t, "-target", "neither skylark nor java: %q", *flagTarget)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	end := time.After(readyTimeout)
	for err := sys.discover(want); err != nil; err = sys.discover(want) {
		if end := sys.ended(); end != nil {
			sys.showLog()
			require.NoError(t, end, "the system ended before it was ready")
		}
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

// ports are those of a started system: the name server's and the broker's.
func ports(t *testing.T) (ns, broker int) {
	if *flagPort != 0 {
		return *flagPort, *flagPort + brokerAbove
	}
	// The broker listens two below for clients of old, and one above for replication.
	ns, err := freeport.Find(brokerAbove-2, brokerAbove, brokerAbove+1)
	require.NoError(t, err)
	return ns, ns + brokerAbove
}

// startSkylark starts one and returns its broker's name.
func startSkylark(t *testing.T, w *work, sys *system) string {
	dir := t.TempDir()
	conf, nsConf := filepath.Join(dir, "broker.conf"), filepath.Join(dir, "namesrv.conf")
	nsPort, brokerPort := ports(t)
	name := "broker-" + w.runID
	text := brokerProperties + "brokerName=" + name + "\nlistenPort=" + strconv.Itoa(brokerPort) + "\n"
	if name := os.Getenv("REACTOR"); name != "" {
		text += "reactor=" + name + "\n"
	}
	require.NoError(t, os.WriteFile(conf, []byte(text), 0o644))
	require.NoError(t, os.WriteFile(nsConf, []byte("orderMessageEnable=true\n"), 0o644))
	sys.namesrv = rig.Local(nsPort)
	sys.log = filepath.Join(w.sub("log"), "skylark.log")
	require.NoError(t, os.RemoveAll(sys.log))
	p, err := rig.Start(sys.log, rig.Binary(t), "standalone", "--data", filepath.Join(dir, "data"), "-c", conf,
		"--namesrv-conf", nsConf, "--namesrv-port", strconv.Itoa(nsPort))
	require.NoError(t, err)
	sys.done, sys.ended = p.Done(), p.Ended
	stopped := false
	sys.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		if err := p.Ended(); err != nil {
			return err
		}
		return p.Stop()
	}
	t.Cleanup(func() { sys.stop() }) // when the test ends early
	return name
}

// startJava starts the real one and returns its broker's name.
func startJava(t *testing.T, w *work, sys *system) string {
	s := javaoracle.Server{CacheDir: w.dir, Dir: t.TempDir()}
	s.NamesrvPort, s.BrokerPort = ports(t)
	ns, err := s.StartNamesrv(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { ns.Stop() })
	b, err := s.StartBroker(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { b.Stop() })
	sys.namesrv = rig.Local(s.NamesrvPort)
	sys.log = filepath.Join(s.Dir, "broker.log")
	return "broker-a"
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

// discover asks the name server for its brokers (GET_BROKER_CLUSTER_INFO, 106) and takes the first master, which has to
// be the one of the name that is wanted, if any.
// The answer is no standard JSON, its map has numbers as keys: three expressions are enough to read it.
func (s *system) discover(want string) error {
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
	if want != "" && s.brokerName != want {
		return fmt.Errorf("%s has broker %s, which is not ours, %s", s.namesrv, s.brokerName, want)
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
