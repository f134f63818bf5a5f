package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"skylark/controller/replicas"
	"skylark/controller/wal"
)

// Errors of Propose and Read.
var (
	// ErrNotLeader: another member leads, or none, or this one does not know yet what was decided before it.
	ErrNotLeader = errors.New("controller: not the leader")
	// ErrBusy: MaxPending wait already, or too much is not committed yet.
	ErrBusy = errors.New("controller: too much waits for a majority")
	// ErrLostLeadership: the outcome of a proposal is open: a later leader may still commit it.
	ErrLostLeadership = errors.New("controller: leadership was lost before the majority confirmed")
)

// Ticket tells proposals and reads apart; it is unique on a node.
type Ticket uint64

// Result is what became of a proposal.
type Result struct {
	Ticket   Ticket
	Decision replicas.Decision
	Err      error // ErrLostLeadership: Decision is empty
}

// Role is what a node knows about the leadership.
type Role struct {
	Term     uint64
	LeaderID uint64 // RaftID of the leader, 0 if none is known
	// Leader tells that this node leads; Ready that it has applied all that was confirmed before, so that its state is
	// the newest there is. Only then it decides anything.
	Leader, Ready bool
}

// Output is what one call of Work leaves to do.
type Output struct {
	// Messages go to the members that To names. They may be lost, doubled and overtaken.
	Messages []raftpb.Message
	// Results are those of proposals made here.
	Results []Result
	// Reads may be answered from the state now, as it is at the end of Work; FailedReads never can be.
	Reads, FailedReads []Ticket
	Role               Role
}

// Node is one member. Its methods are called by one goroutine at a time.
type Node struct {
	cfg     Config
	log     *wal.WAL
	storage *raft.MemoryStorage // the entries behind the snapshot; package wal has them on the disk
	raft    *raft.RawNode
	state   *replicas.State
	members raftpb.ConfState

	applied      uint64
	appliedTerm  uint64
	snapshot     uint64 // index of the last one
	role         Role
	ticket       Ticket
	pending      map[Ticket]uint64 // proposals: term they were made in
	waitingReads map[Ticket]waitingRead
}

// waitingRead was asked for in a term; index, once it is known, has to be applied.
type waitingRead struct{ term, index uint64 }

const ticketBytes = 8 // in front of an event in the log

// initialIndex and initialTerm are those of the snapshot that every member begins with.
const initialIndex, initialTerm = 1, 1

// Open reads the directory and makes a follower. A directory that holds nothing is made ready.
func Open(cfg Config) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	log, rec, err := wal.Open(wal.Options{FS: cfg.FS, Dir: cfg.Dir, SegmentBytes: cfg.SegmentBytes, Identity: cfg.identity(),
		Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	n := &Node{cfg: cfg, log: log, storage: raft.NewMemoryStorage(), pending: map[Ticket]uint64{},
		waitingReads: map[Ticket]waitingRead{}}
	for _, p := range cfg.Peers {
		n.members.Voters = append(n.members.Voters, RaftID(p))
	}
	err = n.restore(rec)
	if err == nil && !slices.Equal(rec.Identity.Peers, cfg.Peers) {
		err = log.SaveIdentity()
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return n, nil
}

func (n *Node) restore(rec *wal.Recovered) error {
	if err := n.cfg.checkIdentity(rec.Identity); err != nil {
		return err
	}
	snap := rec.Snapshot
	if raft.IsEmptySnap(snap) {
		if rec.Found && len(rec.Entries) > 0 {
			return fmt.Errorf("controller: %s has entries and no snapshot", n.cfg.Dir)
		}
		snap.Data = replicas.New().Snapshot()
		snap.Metadata = raftpb.SnapshotMetadata{Index: initialIndex, Term: initialTerm, ConfState: n.members}
		rec.HardState.Term, rec.HardState.Commit = max(rec.HardState.Term, initialTerm), initialIndex
		if err := n.log.SaveSnapshot(snap, true, rec.HardState); err != nil {
			return fmt.Errorf("controller: %w", err)
		}
	}
	snap.Metadata.ConfState = n.members // the configuration's
	var err error
	if n.state, err = replicas.Restore(snap.Data); err != nil {
		return fmt.Errorf("controller: %s: %w", n.cfg.Dir, err)
	}
	n.applied, n.appliedTerm, n.snapshot = snap.Metadata.Index, snap.Metadata.Term, snap.Metadata.Index
	err = errors.Join(n.storage.ApplySnapshot(snap), n.storage.SetHardState(rec.HardState), n.storage.Append(rec.Entries))
	if err != nil {
		return fmt.Errorf("controller: %s: %w", n.cfg.Dir, err)
	}
	if n.raft, err = raft.NewRawNode(n.cfg.raft(n.storage, n.applied)); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	if len(n.cfg.Peers) == 1 {
		return n.raft.Campaign() // nobody to wait for
	}
	return nil
}

// State is what is decided, for reading between two calls of Work.
func (n *Node) State() *replicas.State { return n.state }

// Role is as of the last Work.
func (n *Node) Role() Role { return n.role }

// Applied is the index of the last entry in State.
func (n *Node) Applied() uint64 { return n.applied }

// Tick is one unit of time.
func (n *Node) Tick() { n.raft.Tick() }

// Step takes a message of another member. Messages that make no sense here are ignored.
func (n *Node) Step(m raftpb.Message) {
	if raft.IsLocalMsg(m.Type) || m.To != RaftID(n.cfg.Self) {
		return
	}
	_ = n.raft.Step(m) // what Raft does not take, as an answer of a stranger, is a message lost
}

// Unreachable tells that messages to a member were lost.
func (n *Node) Unreachable(id uint64) { n.raft.ReportUnreachable(id) }

// SnapshotSent tells what became of a MsgSnap.
func (n *Node) SnapshotSent(id uint64, ok bool) {
	status := raft.SnapshotFinish
	if !ok {
		status = raft.SnapshotFailure
	}
	n.raft.ReportSnapshot(id, status)
}

// Propose writes an event to the log. Its Result comes from a later Work, always.
func (n *Node) Propose(e *replicas.Event) (Ticket, error) {
	if err := n.admit(); err != nil {
		return 0, err
	}
	if err := e.Validate(); err != nil {
		return 0, fmt.Errorf("controller: %w", err)
	}
	n.ticket++
	data := binary.BigEndian.AppendUint64(nil, uint64(n.ticket))
	if err := n.raft.Propose(append(data, e.Encode()...)); err != nil {
		if !n.raftLeads() {
			return 0, ErrNotLeader
		}
		return 0, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	n.pending[n.ticket] = n.role.Term
	return n.ticket, nil
}

// Read asks a majority whether this node still leads. The ticket comes back in Reads once State holds all that was
// decided before this call, or in FailedReads.
func (n *Node) Read() (Ticket, error) {
	if err := n.admit(); err != nil {
		return 0, err
	}
	n.ticket++
	n.waitingReads[n.ticket] = waitingRead{term: n.role.Term}
	n.raft.ReadIndex(binary.BigEndian.AppendUint64(nil, uint64(n.ticket)))
	return n.ticket, nil
}

func (n *Node) admit() error {
	if !n.role.Ready || !n.raftLeads() {
		return ErrNotLeader
	}
	if len(n.pending) >= MaxPending || len(n.waitingReads) >= MaxPending {
		return ErrBusy
	}
	return nil
}

// raftLeads looks behind role, which is as of the last Work.
func (n *Node) raftLeads() bool {
	s := n.raft.BasicStatus()
	return s.RaftState == raft.StateLeader && s.Term == n.role.Term
}

// Resign hands the leadership to the member that is least behind, if there is one. Those heard of lately come first, but
// Raft begins to count anew now and then.
func (n *Node) Resign() {
	var best uint64
	var bestProgress tracker.Progress
	n.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id == RaftID(n.cfg.Self) {
			return
		}
		better := pr.Match > bestProgress.Match
		if pr.RecentActive != bestProgress.RecentActive {
			better = pr.RecentActive
		}
		if best == 0 || better {
			best, bestProgress = id, pr
		}
	})
	if n.role.Leader && best != 0 {
		n.raft.TransferLeader(best)
	}
}

// Close gives the directory free.
func (n *Node) Close() error { return n.log.Close() }
