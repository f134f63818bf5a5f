package ha

import (
	"context"
	"log/slog"
	"net"
	"time"

	"skylark/internal/clock"
	"skylark/store"
)

// SwitchLog is the log of a replica that is master at one time and slave at another; *store.MessageStore is one.
type SwitchLog interface {
	MasterLog
	FollowLog
	// Follow and Lead make it the log of a slave and of a master, see MessageStore.
	Follow()
	Following() bool
	Lead() error
	// CutTail cuts what a slave got of a record that is not whole, and gives the end of the log.
	CutTail() (store.PhyOffset, error)
	// ConfirmTo bounds what consumers are shown, math.MaxInt64 = no bound.
	ConfirmTo(p store.PhyOffset)
	// DispatchBehindBytes is what consumers may be shown and has no queue entries yet.
	DispatchBehindBytes() int64
}

// SwitchOptions of an AutoSwitchHAService.
type SwitchOptions struct {
	Log   SwitchLog
	Clock clock.Clock
	Slog  *slog.Logger
	// Live gives the settings; asked often, it must be cheap.
	Live func() *Live
	// Epochs of the log.
	Epochs *Epochs
	// Dial connects to the master's HA port.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// MasterRange asks the master for the ends of its log before a connection; nil if nobody can. It tells what the
	// handshake does not: where a Java master's log begins.
	MasterRange func(ctx context.Context) (*Range, error)
	// AlterSyncStateSet asks for another SyncStateSet: it has to be sent to the controller with the master's epoch and the
	// epoch of the set that SyncStateSet tells. The answer goes to SetSyncStateSet, or to AlterRefused. Without one nothing
	// is known, and the service asks again. It must not block.
	AlterSyncStateSet func(set []int64)
}

// Limits of automatic switching.
const (
	// maxHandshakeBytes is the longest list of epochs that a slave takes: 65536 of them.
	maxHandshakeBytes = 65536 * epochEntryBytes
	// setInterval is how often the SyncStateSet is looked at, besides at every event.
	setInterval = 500 * time.Millisecond
	// askInterval is how long an answer of the controller is awaited before it is asked again.
	askInterval = 3 * time.Second
	// dispatchPoll is how often a new master looks whether all queue entries are there.
	dispatchPoll = 2 * time.Millisecond
)
