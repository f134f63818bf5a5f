package ha

import (
	"encoding/binary"
)

// HAClient is a slave's connection to its master (Java DefaultHAClient). It connects again after redialInterval, for as long
// as it runs, and follows a change of address at once.
type HAClient struct {
	slaveShell
	f   *follower
	out [reportBytes]byte
}

// NewHAClient makes a client that does nothing before Start.
func NewHAClient(o ClientOptions) *HAClient {
	c := &HAClient{f: newFollower(o.Log, o.Slog)}
	c.setUp(o, c)
	return c
}

// SetMaster says where the master's HA port is, "" = nowhere for now.
func (c *HAClient) SetMaster(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(address, false)
}

func (c *HAClient) begin(nowMillis int64, known *Range) ([]byte, error) {
	first, err := c.f.begin(nowMillis, known)
	return binary.BigEndian.AppendUint64(c.out[:0], uint64(first)), err
}

func (c *HAClient) begun(address string) {
	c.state.Store(int32(ClientTransfer))
	c.o.Slog.Info("connected with the master", "remote", address, "phyOffset", c.f.reported, "end", c.o.Log.MaxPhyOffset())
}

func (c *HAClient) received(b []byte, nowMillis int64) error {
	c.failing = ""
	return c.f.received(b, nowMillis)
}

func (c *HAClient) due(nowMillis, heartbeatMillis int64) ([]byte, bool) {
	offset, ok := c.f.report(nowMillis, heartbeatMillis)
	return binary.BigEndian.AppendUint64(c.out[:0], uint64(offset)), ok
}

func (c *HAClient) unreported() int64 { return c.f.unreported() }

func (c *HAClient) nextReport(live *Live) int64 {
	return c.f.nextReport(live.HeartbeatInterval.Milliseconds())
}

func (c *HAClient) expired(nowMillis, housekeepingMillis int64) bool {
	return c.f.expired(nowMillis, housekeepingMillis)
}
