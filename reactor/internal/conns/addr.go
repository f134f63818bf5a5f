package conns

import (
	"net"
	"net/netip"
)

// TLSHandshakeByte begins a TLS connection (content type handshake). A frame begins with 0 or 1: its length
// is below 2^25.
const TLSHandshakeByte = 0x16

// AddrPort is a's address, IPv4 as such and not in its IPv6-mapped form; the zero value when a is no IP
// address.
func AddrPort(a net.Addr) netip.AddrPort {
	switch t := a.(type) {
	case *net.TCPAddr:
		ap := t.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	case nil:
		return netip.AddrPort{}
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
