package reactortest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// appendFrame appends a frame of the JSON type; the header need not be JSON, an engine does not look into it.
func appendFrame(dst []byte, header string, body []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+len(header)+len(body)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(header)))
	dst = append(dst, header...)
	return append(dst, body...)
}

// client is a peer.
type client struct {
	t  *testing.T
	nc net.Conn
	br *bufio.Reader
}

func (c *client) write(p []byte) {
	c.t.Helper()
	_ = c.nc.SetWriteDeadline(time.Now().Add(patience))
	_, err := c.nc.Write(p)
	require.NoError(c.t, err)
}

func (c *client) send(header string, body []byte) {
	c.t.Helper()
	c.write(appendFrame(nil, header, body))
}

// receive reads one frame.
func (c *client) receive() (header string, body []byte) {
	c.t.Helper()
	header, body, err := c.tryReceive(patience)
	require.NoError(c.t, err)
	return header, body
}

func (c *client) tryReceive(wait time.Duration) (header string, body []byte, err error) {
	if c.br == nil {
		c.br = bufio.NewReaderSize(c.nc, 64<<10)
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(wait))
	var head [8]byte
	if _, err := io.ReadFull(c.br, head[:]); err != nil {
		return "", nil, err
	}
	n, h := int(binary.BigEndian.Uint32(head[:])), int(binary.BigEndian.Uint32(head[4:]))
	if n < 4 || h > n-4 || n > 64<<20 {
		return "", nil, fmt.Errorf("not a frame: % x", head)
	}
	buf := make([]byte, n-4)
	if _, err := io.ReadFull(c.br, buf); err != nil {
		return "", nil, err
	}
	return string(buf[:h]), buf[h:], nil
}

// call sends a frame and reads its answer.
func (c *client) call(header string, body []byte) (string, []byte) {
	c.t.Helper()
	c.send(header, body)
	return c.receive()
}

// expectEnd reads until the server has closed; what still comes is skipped.
func (c *client) expectEnd() {
	c.t.Helper()
	for {
		_, _, err := c.tryReceive(patience)
		if err != nil {
			require.False(c.t, errors.Is(err, os.ErrDeadlineExceeded), "the server did not close")
			return
		}
	}
}

// abort closes without a farewell where that is possible.
func (c *client) abort() {
	if tc, ok := c.nc.(*net.TCPConn); ok {
		_ = tc.SetLinger(0)
	}
	_ = c.nc.Close()
}
