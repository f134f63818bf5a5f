package reactortest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/reactor"
)

// serverTLS is a TLS hook with a fresh certificate.
func serverTLS(t *testing.T) func(net.Conn) net.Conn {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	cfg := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}
	return func(nc net.Conn) net.Conn { return tls.Server(nc, cfg) }
}

func (r *rig) dialTLS() (*client, *tls.Conn) {
	r.t.Helper()
	nc, err := dialEngine(r.h, r.engine)
	require.NoError(r.t, err)
	tc := tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
	require.NoError(r.t, tc.Handshake())
	return r.client(tc), tc
}

func testTLS(t *testing.T, h Harness) {
	r := start(t, h, smallSockets(reactor.Options{TLS: serverTLS(t), HighWatermarkBytes: 64 << 20}))
	plain := r.dial()
	plain.call("echo", nil)
	receive(t, r.server.opens, "OnOpen")
	c, tc := r.dialTLS()
	sc := r.opened(c)
	require.Equal(t, tc.LocalAddr().String(), sc.RemoteAddr().String())
	require.Equal(t, r.engine.Addrs()[0], sc.LocalAddr())
	require.Equal(t, 2, r.engine.Connections())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.send("echo", pattern(0, 3<<20))
	}()
	_, body := c.receive()
	receive(t, done, "the write")
	require.True(t, bytes.Equal(pattern(0, 3<<20), body))
	_, body = c.call("mapped 5 100000", nil)
	for i := range 5 {
		require.True(t, bytes.Equal(pattern(i*100_000, 100_000), body[i*100_000:(i+1)*100_000]))
	}
	_, body = c.call("later", []byte("from elsewhere"))
	require.Equal(t, "from elsewhere", string(body))
	plain.call("echo", nil)

	// the peer goes while much waits for it
	c.send("mapped 10 1000000", nil)
	eventually(t, func() bool { return sc.PendingBytes() > 0 }, "the socket is full")
	_ = tc.NetConn().(*net.TCPConn).SetLinger(0)
	_ = tc.NetConn().Close()
	_ = r.closed()
	eventually(t, func() bool { return r.engine.Connections() == 1 }, "it is gone")

	// the server says farewell
	c, _ = r.dialTLS()
	_, body = c.call("last", []byte("farewell"))
	require.Equal(t, "farewell", string(body))
	c.expectEnd()
	require.ErrorIs(t, r.closed(), errAsked)

	// no handshake at all
	junk := r.dial()
	junk.write([]byte("\x16\x03\x01\x00\x05junk and more junk"))
	junk.expectEnd()
	eventually(t, func() bool { return r.engine.Connections() == 1 }, "it is gone")

	// stopped while open, and in the middle of a handshake
	r.dialTLS()
	half := r.dial()
	half.write([]byte{0x16})
	eventually(t, func() bool { return r.engine.Connections() == 3 }, "all are in")
	plain.call("echo", nil)
	r.stop()
	half.expectEnd()
}

func testTLSDisabled(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{})
	c := r.dial()
	c.write([]byte("\x16\x03\x01\x00\x05hello"))
	c.expectEnd()
	eventually(t, func() bool { return r.log.contains("TLS is disabled") }, "logged")
	eventually(t, func() bool { return r.engine.Connections() == 0 }, "it is gone")
	require.Empty(t, r.server.opens)
}

func testTLSRequired(t *testing.T, h Harness) {
	r := start(t, h, reactor.Options{TLS: serverTLS(t), RequireTLS: true})
	c := r.dial()
	c.write(appendFrame(nil, "echo", nil))
	c.expectEnd()
	eventually(t, func() bool { return r.log.contains("TLS is required") }, "logged")
	require.Empty(t, r.server.opens)
	c, _ = r.dialTLS()
	c.call("echo", nil)
}
