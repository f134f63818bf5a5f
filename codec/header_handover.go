package codec

// HandoverRequestHeader is for SKYLARK_HANDOVER (31002), to the master, or with Prepare from the master to the replica
// that is to follow it, which copies the master's tables at once.
type HandoverRequestHeader struct {
	Prepare bool `ext:"prepare"`
	// To is the controller's id of the replica that shall be master; -1 is any that has everything.
	To int64 `ext:"to,default=-1"`
	// WaitMillis is how long the replica may take to catch up before anything is held.
	WaitMillis int64 `ext:"waitMillis,default=30000"`
}

// HandoverResponseHeader answers SKYLARK_HANDOVER: who is master now.
type HandoverResponseHeader struct {
	MasterBrokerID int64  `ext:"masterBrokerId"`
	MasterAddress  string `ext:"masterAddress"`
	MasterEpoch    int32  `ext:"masterEpoch"`
	CaughtUpMillis int64  `ext:"caughtUpMillis"` // until the replica was near
	HeldMillis     int64  `ext:"heldMillis"`     // from the first request that was held to the new master's readiness
	HeldRequests   int64  `ext:"heldRequests"`
	ForwardMillis  int64  `ext:"forwardMillis"` // how long the old address still serves clients
}
