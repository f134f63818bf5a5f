//go:build interop

package interop

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	remoting "skylark/client"
	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/freeport"
	"skylark/internal/javaoracle"
)

// grpcClient has the scenarios of the Java client for the gRPC protocol.
var grpcClient = client{name: "java-grpc", version: "5.0.8", mainClass: "interop.GrpcMain", sources: []string{"grpc"},
	pom: "grpc/pom.xml"}

// TestProxy runs the Java client of the gRPC protocol through Apache's own proxy, which speaks POP to the broker.
func TestProxy(t *testing.T) {
	if testing.Short() || *flagClients != "" && *flagClients != "java-grpc" {
		t.Skip("-short, or -clients without java-grpc: the proxy is not asked for")
	}
	w := newWork(t)
	program := w.build(t, grpcClient)
	sys := startSystem(t, w)
	prefix := "G" + w.runID
	prepareProxy(t, sys, prefix)
	grpcPort, err := freeport.Find(1)
	require.NoError(t, err)
	remotingPort := grpcPort + 1
	p, err := javaoracle.Server{CacheDir: w.dir, Dir: t.TempDir(), Namesrv: sys.namesrv}.StartProxy(t.Context(), sys.cluster,
		grpcPort, remotingPort)
	require.NoError(t, err)
	t.Cleanup(func() { p.Kill() })
	t.Setenv("PROXY", net.JoinHostPort("127.0.0.1", strconv.Itoa(grpcPort)))
	t.Setenv("PREFIX", prefix)
	only := *flagOnly
	if only == "" {
		only = ".*"
	}
	total := tally{}
	runClient(t, w, sys, grpcClient, program, only).report(t, grpcClient.name, total)
	if total["FAIL"] == 0 && *flagOnly == "" {
		requireDead(t, sys, prefix+"_g_dead")
	}
	require.NoError(t, sys.stop())
	if t.Failed() {
		sys.showLog()
	}
}

// prepareProxy makes the topics and groups of the scenarios: the proxy wants types of messages, and no groups come by
// themselves.
func prepareProxy(t *testing.T, sys *system, prefix string) {
	c := remoting.New(remoting.Options{CallTimeout: 10 * time.Second})
	defer c.Close()
	types := map[string]string{"fifo": "FIFO", "delay": "DELAY", "transaction": "TRANSACTION"}
	for _, name := range []string{"simple", "late", "change", "filter", "push", "dead", "fifo", "delay", "transaction"} {
		topic := &body.TopicConfig{}
		topic.SetDefaults()
		topic.TopicName, topic.ReadQueueNums, topic.WriteQueueNums = prefix+"_"+name, 4, 4
		if typ := types[name]; typ != "" {
			topic.Attributes = map[string]string{"message.type": typ}
		}
		require.NoError(t, c.CreateTopic(t.Context(), sys.broker, topic), name)
		group := body.NewSubscriptionGroupConfig(prefix + "_g_" + name)
		group.ConsumeMessageOrderly = name == "fifo"
		if name == "dead" {
			group.RetryMaxTimes = 1
		}
		require.NoError(t, c.CreateGroup(t.Context(), sys.broker, group), name)
	}
}

// requireDead checks that the message that a group gave up is among its dead letters, once.
func requireDead(t *testing.T, sys *system, group string) {
	c := remoting.New(remoting.Options{CallTimeout: 10 * time.Second})
	defer c.Close()
	end, err := c.MaxOffset(context.Background(), sys.broker, codec.DLQTopic(group), 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, end, "dead letters of %s", group)
}
