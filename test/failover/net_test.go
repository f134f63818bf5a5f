//go:build interop && linux

package failover

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// network is a router, which is the namespace of the test itself, with a point-to-point link to every node. A packet from
// node to node passes the router's routing rules, where cuts are, and the queue of the receiver's link.
type network struct {
	home  int // the router's namespace
	nodes map[string]*netNode
	netem bool // the kernel can delay packets
	tc    bool // links can be slowed down at all
}

// netNode is one namespace. Its link is veth<n> at the router; its address 10.77.<n>.2.
type netNode struct {
	name  string
	index int
	ns    int
}

func (n *netNode) ip() string   { return fmt.Sprintf("10.77.%d.2", n.index) }
func (n *netNode) link() string { return fmt.Sprintf("veth%d", n.index) }
func (n *netNode) addr(port int) string {
	return fmt.Sprintf("%s:%d", n.ip(), port)
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// ownNamespace is that of the thread; the process's first thread may be one that was thrown away in another one.
func ownNamespace() (fd int, err error) {
	return unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// newNetwork makes the router out of the namespace we are in, which is new and empty.
func newNetwork(t *testing.T) *network {
	t.Helper()
	home, err := ownNamespace()
	require.NoError(t, err)
	n := &network{home: home, nodes: map[string]*netNode{}}
	require.NoError(t, run("ip", "link", "set", "lo", "up"))
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644))
	n.netem = run("tc", "qdisc", "replace", "dev", "lo", "root", "netem", "delay", "1ms") == nil
	n.tc = n.netem || run("tc", "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", "1gbit", "burst", "1mb",
		"latency", "1s") == nil
	_ = run("tc", "qdisc", "del", "dev", "lo", "root") // none, if neither could be made
	t.Cleanup(func() {
		for _, node := range n.nodes {
			_ = run("ip", "link", "del", node.link())
			_ = unix.Close(node.ns)
		}
		_ = run("ip", "rule", "flush")
		_ = run("ip", "rule", "add", "from", "all", "lookup", "main", "pref", "32766")
		_ = unix.Close(home)
	})
	return n
}

// node makes a namespace with a link to the router.
func (n *network) node(t *testing.T, name string) *netNode {
	t.Helper()
	node := &netNode{name: name, index: len(n.nodes) + 1}
	n.nodes[name] = node
	made := make(chan error, 1)
	go func() { // a thread of its own, which is thrown away
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			node.ns, err = ownNamespace()
		}
		made <- err
	}()
	require.NoError(t, <-made)
	gateway := fmt.Sprintf("10.77.%d.1", node.index)
	n.inside(t, node, func() error {
		thread := fmt.Sprint(unix.Gettid())
		linked := make(chan error)
		go func() { // on another thread, that is, in the router's namespace
			linked <- run("ip", "link", "add", node.link(), "type", "veth", "peer", "name", "eth0", "netns", thread)
		}()
		if err := <-linked; err != nil {
			return err
		}
		for _, line := range []string{"link set lo up", "addr add " + node.ip() + "/24 dev eth0", "link set eth0 up",
			"route add default via " + gateway} {
			if err := run("ip", strings.Fields(line)...); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, run("ip", "addr", "add", gateway+"/24", "dev", node.link()))
	require.NoError(t, run("ip", "link", "set", node.link(), "up"))
	return node
}

// within runs f on a thread that is in the node's namespace: sockets f makes and processes it starts are in there.
func (n *network) within(node *netNode, f func() error) error {
	runtime.LockOSThread()
	if err := unix.Setns(node.ns, unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("namespace of %s: %w", node.name, err)
	}
	err := f()
	if back := unix.Setns(n.home, unix.CLONE_NEWNET); back != nil {
		panic(fmt.Sprintf("FATAL: back from the namespace of %s: %v", node.name, back))
	}
	runtime.UnlockOSThread()
	return err
}

func (n *network) inside(t *testing.T, node *netNode, f func() error) {
	t.Helper()
	require.NoError(t, n.within(node, f))
}

// dialFrom makes the connections of a client on a node.
func (n *network) dialFrom(node *netNode) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = n.within(node, func() (err error) {
			c, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}
}

// cut drops what goes from one node to another, silently, until mend.
func (n *network) cut(from, to *netNode) error { return n.rule("add", from, to) }

func (n *network) mend(from, to *netNode) error { return n.rule("del", from, to) }

func (n *network) rule(verb string, from, to *netNode) error {
	return run("ip", "rule", verb, "from", from.ip(), "to", to.ip(), "pref", "100", "blackhole")
}

// shape bounds and, where the kernel can, delays what reaches a node; slow says how.
func (n *network) shape(to *netNode, slow slowness) error {
	args := []string{"qdisc", "replace", "dev", to.link(), "root"}
	if slow.delay > 0 && n.netem {
		args = append(args, "netem", "delay", slow.delay.String(), "rate", fmt.Sprint(slow.kbit, "kbit"), "limit", "10000")
	} else {
		args = append(args, "tbf", "rate", fmt.Sprint(slow.kbit, "kbit"), "burst", "32kb", "latency", "500ms")
	}
	return run("tc", args...)
}

func (n *network) unshape(to *netNode) error {
	return run("tc", "qdisc", "del", "dev", to.link(), "root")
}
