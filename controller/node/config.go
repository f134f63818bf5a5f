package node

import (
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"

	"go.etcd.io/raft/v3"

	"skylark/controller/wal"
	"skylark/internal/vfs"
)

// Defaults of Config, and limits.
const (
	DefaultElectionTicks   = 10 // the election starts after 10 to 19 ticks without leader
	DefaultHeartbeatTicks  = 2
	DefaultSnapshotEntries = 1024
	// MaxPeers is the largest group. Every member is one more copy that an event waits for.
	MaxPeers = 5
	// MaxPending bounds the proposals, and the reads, that wait for a majority (Java's event queue: 1024).
	MaxPending = 1024

	maxMessageBytes     = 512 << 10
	maxInflightMessages = 64
	maxUncommittedBytes = 8 << 20
)

// Config of a node.
type Config struct {
	Group string   // name of the group
	Self  string   // own id
	Peers []string // ids of all members, Self among them
	FS    vfs.FS
	Dir   string
	// ElectionTicks and HeartbeatTicks are Raft's, in calls of Tick.
	ElectionTicks, HeartbeatTicks int
	// SnapshotEntries is how many events are applied between two snapshots; as many are kept in memory for members that
	// are behind.
	SnapshotEntries uint64
	SegmentBytes    int64
	Log             *slog.Logger
}

func (c *Config) check() error {
	if c.ElectionTicks == 0 {
		c.ElectionTicks = DefaultElectionTicks
	}
	if c.HeartbeatTicks == 0 {
		c.HeartbeatTicks = DefaultHeartbeatTicks
	}
	if c.SnapshotEntries == 0 {
		c.SnapshotEntries = DefaultSnapshotEntries
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Peers = slices.Clone(c.Peers)
	slices.Sort(c.Peers)
	switch {
	case c.Group == "":
		return fmt.Errorf("controller: the name of the group is missing")
	case len(c.Peers) < 1 || len(c.Peers) > MaxPeers:
		return fmt.Errorf("controller: %d members, want 1 to %d", len(c.Peers), MaxPeers)
	case !slices.Contains(c.Peers, c.Self):
		return fmt.Errorf("controller: own id %q is not among the members %v", c.Self, c.Peers)
	}
	seen := map[uint64]string{}
	for _, p := range c.Peers {
		id := RaftID(p)
		if other, ok := seen[id]; ok {
			return fmt.Errorf("controller: members %q and %q: the same id, or one that cannot stand beside the other", other, p)
		}
		seen[id] = p
	}
	return nil
}

// RaftID is the number that stands for a member's id in Raft: FNV-1a, 63 bits, never 0.
func RaftID(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	return h.Sum64()>>1 | 1
}

func (c *Config) identity() wal.Identity {
	return wal.Identity{Group: c.Group, Self: c.Self, Peers: c.Peers}
}

// checkIdentity refuses the directory of another member or group, and a list of members too far from the last one.
func (c *Config) checkIdentity(was wal.Identity) error {
	switch {
	case was.Group == "": // nothing was written but a snapshot
		return nil
	case was.Group != c.Group:
		return fmt.Errorf("controller: %s belongs to the group %q, not to %q", c.Dir, was.Group, c.Group)
	case was.Self != c.Self:
		return fmt.Errorf("controller: %s belongs to the member %q, not to %q", c.Dir, was.Self, c.Self)
	}
	differ := 0
	for _, p := range c.Peers {
		if !slices.Contains(was.Peers, p) {
			differ++
		}
	}
	for _, p := range was.Peers {
		if !slices.Contains(c.Peers, p) {
			differ++
		}
	}
	if differ > 1 {
		return fmt.Errorf("controller: members were %v and shall be %v: add or remove one at a time, and restart all "+
			"members before the next change", was.Peers, c.Peers)
	}
	return nil
}

func (c *Config) raft(storage raft.Storage, applied uint64) *raft.Config {
	return &raft.Config{
		ID: RaftID(c.Self), ElectionTick: c.ElectionTicks, HeartbeatTick: c.HeartbeatTicks, Storage: storage,
		Applied: applied, MaxSizePerMsg: maxMessageBytes, MaxInflightMsgs: maxInflightMessages,
		MaxUncommittedEntriesSize: maxUncommittedBytes, CheckQuorum: true, PreVote: true,
		DisableProposalForwarding: true, Logger: logger{c.Log},
	}
}
