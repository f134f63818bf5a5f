//go:build interop && linux

package failover

import (
	"bufio"
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The network does what the faults need: nodes reach each other, a cut drops one direction silently, also of connections
// that are up, and they go on when it is mended.
func TestNetwork(t *testing.T) {
	skipIfMissing(t)
	n := newNetwork(t)
	a, b := n.node(t, "a"), n.node(t, "b")
	var l net.Listener
	n.inside(t, a, func() (err error) {
		l, err = net.Listen("tcp", a.addr(7000))
		return err
	})
	defer l.Close()
	got := make(chan string, 10)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for s := bufio.NewScanner(c); s.Scan(); {
			got <- s.Text()
			_, _ = c.Write([]byte("ok\n"))
		}
		close(got)
	}()
	c, err := n.dialFrom(b)(t.Context(), "tcp", a.addr(7000))
	require.NoError(t, err)
	answers := bufio.NewReader(c)
	require.Equal(t, b.ip(), c.LocalAddr().(*net.TCPAddr).IP.String())
	say := func(word string) { _, err := c.Write([]byte(word + "\n")); require.NoError(t, err) }
	say("one")
	require.Equal(t, "one", <-got)
	_, err = answers.ReadString('\n')
	require.NoError(t, err)

	require.NoError(t, n.cut(a, b))
	say("two") // arrives, but its answer does not
	require.Equal(t, "two", <-got)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
	_, err = answers.ReadString('\n')
	require.Error(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = n.dialFrom(b)(ctx, "tcp", a.addr(7000))
	var late net.Error
	require.ErrorAs(t, err, &late)
	require.True(t, late.Timeout(), "silence, no refusal: %v", err)
	require.NoError(t, n.mend(a, b))
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = answers.ReadString('\n')
	require.NoError(t, err)

	if n.tc {
		require.NoError(t, n.shape(a, slowness{kbit: 1000, delay: 20 * time.Millisecond}))
		require.NoError(t, n.unshape(a))
	}
	t.Logf("tc %v, netem %v", n.tc, n.netem)
	require.NoError(t, c.Close())
	for range got {
	}
}
