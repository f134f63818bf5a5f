package ha

import (
	"skylark/store"
)

// switchClient is a slave's connection to its master (Java AutoSwitchHAClient).
type switchClient struct {
	slaveShell
	log SwitchLog
	f   *SwitchFollower
	// confirmed is told what the master says that it is.
	confirmed func(store.PhyOffset)

	id     int64           // of this replica; under mu
	remote string          // of the connection; this and told are the goroutine's own
	told   store.PhyOffset // of confirmed, last
}

func startSwitchClient(o *SwitchOptions, id int64, address string, confirmed func(store.PhyOffset)) *switchClient {
	c := &switchClient{log: o.Log, f: NewSwitchFollower(o.Log, o.Epochs, o.Slog), confirmed: confirmed, id: id}
	c.setUp(ClientOptions{Log: o.Log, Clock: o.Clock, Slog: o.Slog, Live: o.Live, Dial: o.Dial, MasterRange: o.MasterRange}, c)
	c.address = address
	c.Start()
	return c
}

// setMaster says who this replica is and where the master's HA port is. anew also ends a connection to the same address.
func (c *switchClient) setMaster(id int64, address string, anew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	anew = anew || c.id != id
	c.id = id
	c.move(address, anew)
}

func (c *switchClient) begin(nowMillis int64, known *Range) ([]byte, error) {
	if _, err := c.log.CutTail(); err != nil { // the log ends where readers see it end, with a whole record
		return nil, err
	}
	c.mu.Lock()
	id := c.id // with another one from here on the connection is closed
	c.mu.Unlock()
	live := c.o.Live()
	return c.f.Begin(nowMillis, id, live.SyncFromLastFile, live.AsyncLearner, known), nil
}

func (c *switchClient) begun(address string) {
	c.remote = address
	c.state.Store(int32(ClientHandshake))
}

// received takes bytes of the master and shows consumers what it confirms.
func (c *switchClient) received(b []byte, nowMillis int64) error {
	if err := c.f.Received(b, nowMillis); err != nil {
		return err
	}
	if c.f.Shaken() && c.State() != ClientTransfer {
		c.failing = ""
		c.state.Store(int32(ClientTransfer))
		c.o.Slog.Info("connected with the master", "remote", c.remote, "end", c.o.Log.MaxPhyOffset())
	}
	if confirmed := c.f.Confirmed(); confirmed != c.told {
		c.told = confirmed
		c.confirmed(confirmed)
	}
	return nil
}

func (c *switchClient) due(nowMillis, heartbeatMillis int64) ([]byte, bool) {
	return c.f.Due(nowMillis, heartbeatMillis)
}

func (c *switchClient) unreported() int64 { return c.f.Unreported() }

// nextReport is when the master has been silent for too long, before the handshake: there is nothing to report then.
func (c *switchClient) nextReport(live *Live) int64 {
	if !c.f.Shaken() {
		return c.f.f.readAt + live.HousekeepingInterval.Milliseconds() + 1
	}
	return c.f.NextReport(live.HeartbeatInterval.Milliseconds())
}

func (c *switchClient) expired(nowMillis, housekeepingMillis int64) bool {
	return c.f.Expired(nowMillis, housekeepingMillis)
}
