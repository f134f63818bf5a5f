package broker

import (
	"time"

	"skylark/config"
	"skylark/ha"
)

// ackMajority is the value of haAckRule for a quorum.
const ackMajority = "majority"

// quorumPatience is how long a member of a quorum may lag behind before it leaves the SyncStateSet: sends wait for it
// meanwhile. haMaxTimeSlaveNotCatchup counts if it is shorter.
const quorumPatience = time.Second

// quorum is haAckRule=majority: a put waits for all of the SyncStateSet, which the controllers elect from, and is refused
// when that is not a majority of totalReplicas. A majority alone (DLedger) is not enough where the controllers choose by
// heartbeats, which are up to a second old: another member than the one with the longest log might be elected.
func quorum(l *ha.Live, c *config.MessageStoreConfig) {
	l.Rule, l.Refuse = ha.InSyncReplicas, true
	l.AllAckInSyncStateSet, l.Majority, l.AutoInSync = true, c.TotalReplicas, false
	l.MaxTimeSlaveNotCatchup = min(l.MaxTimeSlaveNotCatchup, quorumPatience)
}
