package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"skylark/controller/replicas"
)

// Work does all there is to do. After an error, which is the disk's or a damaged entry, the node is of no use any more:
// its messages may promise what is not durable, so none are returned.
func (n *Node) Work() (Output, error) {
	var out Output
	for n.raft.HasReady() {
		rd := n.raft.Ready()
		if err := n.save(&rd); err != nil {
			return Output{Role: Role{Term: n.role.Term}}, err
		}
		out.Messages = append(out.Messages, rd.Messages...)
		for i := range rd.CommittedEntries {
			if err := n.apply(&rd.CommittedEntries[i], &out); err != nil {
				return Output{Role: Role{Term: n.role.Term}}, err
			}
		}
		for _, rs := range rd.ReadStates {
			t := Ticket(binary.BigEndian.Uint64(rs.RequestCtx))
			if r, ok := n.waitingReads[t]; ok {
				n.waitingReads[t] = waitingRead{r.term, rs.Index}
			}
		}
		n.raft.Advance(rd)
	}
	n.updateRole()
	n.settle(&out)
	if err := n.compact(); err != nil {
		return Output{Role: Role{Term: n.role.Term}}, err
	}
	out.Role = n.role
	return out, nil
}

// save makes durable what Raft wants to be.
func (n *Node) save(rd *raft.Ready) error {
	if !raft.IsEmptySnap(rd.Snapshot) {
		if err := n.install(rd.Snapshot, rd.HardState); err != nil {
			return err
		}
	}
	if rd.MustSync || len(rd.Entries) > 0 { // a newer commit index alone is found again
		if err := n.log.Append(rd.HardState, rd.Entries); err != nil {
			return fmt.Errorf("controller: %w", err)
		}
	}
	if !raft.IsEmptyHardState(rd.HardState) {
		if err := n.storage.SetHardState(rd.HardState); err != nil {
			return fmt.Errorf("controller: %w", err)
		}
	}
	if err := n.storage.Append(rd.Entries); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	return nil
}

// install takes a snapshot of the leader: this node was too far behind.
func (n *Node) install(snap raftpb.Snapshot, hs raftpb.HardState) error {
	state, err := replicas.Restore(snap.Data)
	if err != nil {
		return fmt.Errorf("controller: snapshot of the leader: %w", err)
	}
	if err := n.log.SaveSnapshot(snap, true, hs); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	if err := n.storage.ApplySnapshot(snap); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	n.state = state
	n.applied, n.appliedTerm, n.snapshot = snap.Metadata.Index, snap.Metadata.Term, snap.Metadata.Index
	return nil
}

// apply decides one event, or passes over the entry that begins a term.
func (n *Node) apply(e *raftpb.Entry, out *Output) error {
	n.applied, n.appliedTerm = e.Index, e.Term
	if e.Type != raftpb.EntryNormal || len(e.Data) == 0 {
		return nil
	}
	if len(e.Data) < ticketBytes {
		return fmt.Errorf("controller: entry %d has %d bytes", e.Index, len(e.Data))
	}
	ev, err := replicas.DecodeEvent(e.Data[ticketBytes:])
	if err != nil {
		return fmt.Errorf("controller: entry %d: %w", e.Index, err)
	}
	d := n.state.Apply(ev)
	// A term has one leader, and a node that leads again does so in a newer one: term and ticket name the proposal.
	t := Ticket(binary.BigEndian.Uint64(e.Data))
	if term, ok := n.pending[t]; ok && term == e.Term {
		delete(n.pending, t)
		out.Results = append(out.Results, Result{Ticket: t, Decision: d})
	}
	return nil
}

func (n *Node) updateRole() {
	s := n.raft.BasicStatus()
	leader := s.RaftState == raft.StateLeader
	n.role = Role{Term: s.Term, LeaderID: s.Lead, Leader: leader, Ready: leader && n.appliedTerm == s.Term}
}

// settle ends reads that can be answered, and everything that waits for a leadership that is over.
func (n *Node) settle(out *Output) {
	for _, t := range slices.Sorted(maps.Keys(n.pending)) {
		if !n.role.Leader || n.pending[t] != n.role.Term {
			delete(n.pending, t)
			out.Results = append(out.Results, Result{Ticket: t, Err: ErrLostLeadership})
		}
	}
	for _, t := range slices.Sorted(maps.Keys(n.waitingReads)) {
		switch r := n.waitingReads[t]; {
		case r.index != 0 && r.index <= n.applied:
			out.Reads = append(out.Reads, t)
		case !n.role.Leader || r.term != n.role.Term:
			out.FailedReads = append(out.FailedReads, t)
		default:
			continue
		}
		delete(n.waitingReads, t)
	}
}

// compact makes a snapshot now and then.
func (n *Node) compact() error {
	if n.applied < n.snapshot+n.cfg.SnapshotEntries {
		return nil
	}
	snap, err := n.storage.CreateSnapshot(n.applied, &n.members, n.state.Snapshot())
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	if err := n.log.SaveSnapshot(snap, false, raftpb.HardState{}); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	n.snapshot = n.applied
	keep := n.applied - min(n.applied, n.cfg.SnapshotEntries)
	if err := n.storage.Compact(keep); err != nil && !errors.Is(err, raft.ErrCompacted) {
		return fmt.Errorf("controller: %w", err)
	}
	return nil
}
