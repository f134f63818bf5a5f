package broker

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"skylark/config"
)

// advertised is an address that others use, and the reason it was chosen.
type advertised struct {
	Text string         // host:port as registered
	Host netip.AddrPort // as stored in messages
	Why  string
}

// advertise decides which address the broker registers (Java brokerIP1 and listenPort; advertiseAddr sets
// host and port apart from what is listened on).
func advertise(set *config.Set, port int) (advertised, error) {
	own, b := set.Own(), set.Broker()
	if own.AdvertiseAddr != "" {
		return resolve(own.AdvertiseAddr, "advertiseAddr is set")
	}
	if b.BrokerIP1 != "" {
		return resolve(net.JoinHostPort(b.BrokerIP1, strconv.Itoa(port)), "brokerIP1 is set")
	}
	ip, why := localAddr()
	return resolve(net.JoinHostPort(ip.String(), strconv.Itoa(port)), why)
}

// advertiseHA decides the replication address.
func advertiseHA(set *config.Set, main advertised, haPort int) (advertised, error) {
	own, b := set.Own(), set.Broker()
	if own.HaAdvertiseAddr != "" {
		return resolve(own.HaAdvertiseAddr, "haAdvertiseAddr is set")
	}
	if b.BrokerIP2 != "" {
		return resolve(net.JoinHostPort(b.BrokerIP2, strconv.Itoa(haPort)), "brokerIP2 is set")
	}
	host, _, err := net.SplitHostPort(main.Text)
	if err != nil {
		return advertised{}, err
	}
	return resolve(net.JoinHostPort(host, strconv.Itoa(haPort)), "as the broker's address")
}

// resolveTimeout bounds the look-up of a host name at start.
const resolveTimeout = 5 * time.Second

// resolve makes an address of host:port. The host may be a name: clients get the name, messages its first
// address.
func resolve(addr, why string) (advertised, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return advertised{}, fmt.Errorf("broker: the address to advertise is %q, not host:port", addr)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return advertised{}, fmt.Errorf("broker: the address to advertise, %q, has no port from 0 to 65535", addr)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return advertised{Text: addr, Host: netip.AddrPortFrom(ip.WithZone(""), uint16(port)), Why: why}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(ips) == 0 {
		return advertised{}, fmt.Errorf("broker: the host to advertise, %q, cannot be resolved: %w", host, err)
	}
	return advertised{Text: addr, Host: netip.AddrPortFrom(ips[0].Unmap(), uint16(port)), Why: why}, nil
}

// localAddr picks an address of this host: IPv4 before IPv6, interfaces that are up, never loopback or
// link-local if there is another; loopback when there is none.
func localAddr() (netip.Addr, string) {
	var v6 netip.Addr
	var v6Name string
	ifaces, err := net.Interfaces()
	if err != nil {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), "the interfaces cannot be listed: " + err.Error()
	}
	for _, i := range ifaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue
			}
			switch ip := p.Addr().Unmap(); {
			case ip.Is4() && !ip.IsLinkLocalUnicast():
				return ip, "the first IPv4 address, of interface " + i.Name
			case ip.Is6() && !ip.IsLinkLocalUnicast() && !v6.IsValid():
				v6, v6Name = ip, i.Name
			}
		}
	}
	if v6.IsValid() {
		return v6, "the first IPv6 address, of interface " + v6Name
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1}), "no interface but loopback has an address"
}
