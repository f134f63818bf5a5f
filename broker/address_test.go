package broker

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/config"
)

// Which address is advertised, and why.
func TestAdvertise(t *testing.T) {
	set := func(conf string) *config.Set {
		t.Helper()
		s := config.NewBrokerSet()
		f, err := config.Parse(conf, "test.conf")
		require.NoError(t, err)
		_, err = s.Load(f)
		require.NoError(t, err)
		return s
	}
	f := func(conf, text, host, why, ha string) {
		t.Helper()
		s := set(conf)
		a, err := advertise(s, 10911)
		require.NoError(t, err)
		require.Equal(t, text, a.Text)
		require.Equal(t, netip.MustParseAddrPort(host), a.Host)
		require.Contains(t, a.Why, why)
		h, err := advertiseHA(s, a, 10912)
		require.NoError(t, err)
		require.Equal(t, ha, h.Text)
	}
	f("brokerIP1=10.0.0.1\n", "10.0.0.1:10911", "10.0.0.1:10911", "brokerIP1", "10.0.0.1:10912")
	f("brokerIP1=10.0.0.1\nbrokerIP2=10.0.0.2\n", "10.0.0.1:10911", "10.0.0.1:10911", "brokerIP1",
		"10.0.0.2:10912")
	f("brokerIP1=fe80::1\n", "[fe80::1]:10911", "[fe80::1]:10911", "brokerIP1", "[fe80::1]:10912")
	f("brokerIP1=10.0.0.1\nadvertiseAddr=192.0.2.1:7000\n", "192.0.2.1:7000", "192.0.2.1:7000", "advertiseAddr",
		"192.0.2.1:10912")
	f("advertiseAddr=192.0.2.1:7000\nhaAdvertiseAddr=192.0.2.2:7001\n", "192.0.2.1:7000", "192.0.2.1:7000",
		"advertiseAddr", "192.0.2.2:7001")

	a, err := advertise(set("advertiseAddr=localhost:7000\n"), 1)
	require.NoError(t, err)
	require.Equal(t, "localhost:7000", a.Text, "clients get the name")
	require.True(t, a.Host.Addr().IsLoopback())

	a, err = advertise(set(""), 10911)
	require.NoError(t, err)
	require.NotEmpty(t, a.Why)
	require.False(t, a.Host.Addr().IsUnspecified())
	require.Equal(t, a.Host.String(), a.Text)
}
