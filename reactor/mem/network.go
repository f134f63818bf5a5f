package mem

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// backlog is how many connections wait for Accept; one more is refused.
const backlog = 1024

// Fate is what becomes of the bytes of one write.
type Fate struct {
	// Delay is how much later they arrive; bytes never overtake each other.
	Delay time.Duration
	// Lost makes them and all that follow them vanish, without a sign to either side: a dead link. The writer
	// goes on until its buffer is full.
	Lost bool
	// Reset tears the connection: both sides get ECONNRESET.
	Reset bool
}

// Hook decides about a write of n bytes. It is called by the writer and does not wait.
type Hook func(from, to netip.AddrPort, n int) Fate

// Network connects addresses. Its zero value is not usable, see NewNetwork.
type Network struct {
	mu        sync.Mutex
	listeners map[netip.AddrPort]*Listener
	nextPort  uint16
	hook      Hook
}

// NewNetwork makes an empty network.
func NewNetwork() *Network {
	return &Network{listeners: map[netip.AddrPort]*Listener{}, nextPort: 30000}
}

// SetHook installs h for all writes from now on; nil lets everything pass.
func (n *Network) SetHook(h Hook) {
	n.mu.Lock()
	n.hook = h
	n.mu.Unlock()
}

func (n *Network) fate(from, to netip.AddrPort, size int) Fate {
	n.mu.Lock()
	h := n.hook
	n.mu.Unlock()
	if h == nil {
		return Fate{}
	}
	return h(from, to, size)
}

// port hands out the port numbers of dialers and of listeners that ask for port 0.
func (n *Network) port() uint16 {
	n.nextPort++
	if n.nextPort < 1024 {
		n.nextPort = 1024
	}
	return n.nextPort
}

// Listen binds an IP address and port; port 0 picks a free one.
func (n *Network) Listen(addr string) (*Listener, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("mem: listen: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if ap.Port() == 0 {
		for {
			ap = netip.AddrPortFrom(ap.Addr(), n.port())
			if n.listeners[ap] == nil {
				break
			}
		}
	}
	if n.listeners[ap] != nil {
		at := net.TCPAddrFromAddrPort(ap)
		return nil, &net.OpError{Op: "listen", Net: "mem", Addr: at, Err: syscall.EADDRINUSE}
	}
	l := &Listener{net: n, addr: ap, queue: make(chan *conn, backlog), done: make(chan struct{})}
	n.listeners[ap] = l
	return l, nil
}

// dialerIP is where connections of Dial come from.
var dialerIP = netip.AddrFrom4([4]byte{127, 0, 0, 2})

// Dial connects to a listener of the network, at that address or at the unspecified one with the same port.
func (n *Network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("mem: dial: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[ap]
	for _, any := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if l == nil {
			l = n.listeners[netip.AddrPortFrom(any, ap.Port())]
		}
	}
	if l == nil {
		return nil, refused(ap)
	}
	client, server := n.pair(netip.AddrPortFrom(dialerIP, n.port()), ap)
	select {
	case l.queue <- server:
		return client, nil
	default:
		return nil, refused(ap)
	}
}

func refused(ap netip.AddrPort) error {
	return &net.OpError{Op: "dial", Net: "mem", Addr: net.TCPAddrFromAddrPort(ap), Err: syscall.ECONNREFUSED}
}

// Listener is a net.Listener of a Network.
type Listener struct {
	net   *Network
	addr  netip.AddrPort
	queue chan *conn
	done  chan struct{}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: "mem", Addr: l.Addr(), Err: net.ErrClosed}
	}
}

// Close implements net.Listener. Connections nobody accepted are reset.
func (l *Listener) Close() error {
	l.net.mu.Lock()
	open := l.net.listeners[l.addr] == l
	if open {
		delete(l.net.listeners, l.addr)
		close(l.done)
	}
	l.net.mu.Unlock()
	if !open {
		return net.ErrClosed
	}
	for {
		select {
		case c := <-l.queue:
			c.reset()
		default:
			return nil
		}
	}
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.addr) }
