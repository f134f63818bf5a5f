package ha

import (
	"context"
	"log/slog"
	"net"
	"time"

	"skylark/internal/clock"
	"skylark/store"
	"skylark/zerocopy"
)

// MasterLog is what the master's side reads; *store.MessageStore is one.
type MasterLog interface {
	MinPhyOffset() store.PhyOffset
	MaxPhyOffset() store.PhyOffset
	LogFileBytes() int64
	// ReadLog gives a piece of one file with a reference (MessageStore.ReadLog).
	ReadLog(from store.PhyOffset, maxBytes int) (zerocopy.Segment, bool)
	// WatchLog has f called when there may be more to read.
	WatchLog(f func())
}

// Rule says how many copies a put waits for.
type Rule uint8

// The rules, of putting with waitStoreMsgOK.
const (
	// NoCopies waits for none: ASYNC_MASTER, and SYNC_MASTER of Java 5 with inSyncReplicas=1.
	NoCopies Rule = iota
	// OneSlave is SYNC_MASTER of Java 4: any one slave.
	OneSlave
	// InSyncReplicas is SYNC_MASTER of Java 5: Live.InSyncReplicas replicas, the master among them.
	InSyncReplicas
)

// Live are the settings that may change while the service runs. The comments name Java's keys.
type Live struct {
	HeartbeatInterval    time.Duration // haSendHeartbeatInterval, 5 s
	HousekeepingInterval time.Duration // haHousekeepingInterval, 20 s
	TransferBatchBytes   int           // haTransferBatchSize: body of a frame, 32 KiB
	MaxBytesInSecond     int64         // maxHaTransferByteInSecond with haFlowControlEnable; 0 = no limit
	MaxGapNotInSync      int64         // haMaxGapNotInSync, haSlaveFallbehindMax of Java 4: 256 MiB
	SlaveTimeout         time.Duration // slaveTimeout, 3 s

	Rule              Rule
	InSyncReplicas    int  // inSyncReplicas
	MinInSyncReplicas int  // minInSyncReplicas
	AutoInSync        bool // enableAutoInSyncReplicas
	// Refuse refuses messages that cannot get their copies before they are stored (Java: enableSlaveActingMaster and
	// controller mode).
	Refuse bool
	// AliveReplicas are those of the group that the name server knows, the master among them; 0 = unknown.
	AliveReplicas int

	// Only in groups with automatic switching (AutoSwitchHAService):

	AllAckInSyncStateSet   bool          // allAckInSyncStateSet: a put waits for all of the SyncStateSet
	MaxTimeSlaveNotCatchup time.Duration // haMaxTimeSlaveNotCatchup, 15 s: then a slave leaves the SyncStateSet
	SyncFromLastFile       bool          // syncFromLastFile: an empty slave begins with the master's last file
	AsyncLearner           bool          // asyncLearner: this slave is never in a SyncStateSet
	// Majority > 0 is the number of replicas of a group in quorum mode: a put waits for Majority/2 slaves of the
	// SyncStateSet. The member of the set that is elected later has what the longest has, not what all have: to be safe
	// against any election set AllAckInSyncStateSet and a MinInSyncReplicas of Majority/2+1 instead.
	Majority int
}

// Options of a HAService.
type Options struct {
	Log   MasterLog
	Clock clock.Clock
	Slog  *slog.Logger
	// Live gives the settings; asked often, it must be cheap.
	Live func() *Live
}

// ClientOptions of a HAClient.
type ClientOptions struct {
	Log   FollowLog
	Clock clock.Clock
	Slog  *slog.Logger
	Live  func() *Live
	// Dial connects to the master's HA port.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// MasterRange asks the master for the ends of its log before a connection, nil if nobody can: some differences are
	// found later then.
	MasterRange func(ctx context.Context) (*Range, error)
}

// Limits of both sides.
const (
	// MaxSlaves are the connections of one master; further ones are closed at once.
	MaxSlaves = 64
	// batchBytes is what one turn writes to a slave at most. It is also the longest body of a frame, but where puts wait for a
	// slave at the end of the log: those are of TransferBatchBytes, after each of which a slave of Java's reports.
	batchBytes = 1 << 20
	// gatherTime is how long a sender that has just sent all there was waits for more, unless puts wait for slaves: 1000
	// wake-ups a second at most, however many messages.
	gatherTime = time.Millisecond
	// redialInterval is how long a slave waits before it connects again (Java: 5 s).
	redialInterval = time.Second
	// dialTimeout bounds a connection attempt and the question for the master's range.
	dialTimeout = 3 * time.Second
	// maxAgain bounds the reconnections in a row that do not wait.
	maxAgain = 16
	// readBytes is the slave's buffer.
	readBytes = 512 << 10
	// maxUnreported is how much a slave takes before it reports though there is more to read: puts may wait for it.
	maxUnreported = 64 << 10
)

// frameBytes is the longest body of a frame, as configured and as Java's slave can take it. A slave that is far behind, or
// for which nobody waits, gets long ones: half of the system calls of the sender and, in the slave, one write where there
// were 32.
func (l *Live) frameBytes(behind int64) int {
	n := l.TransferBatchBytes
	if behind >= batchBytes || l.Rule == NoCopies {
		n = max(n, batchBytes)
	}
	return min(max(n, 1), maxBodyBytes)
}
