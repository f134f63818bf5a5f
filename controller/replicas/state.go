package replicas

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Replica is one broker of a broker name.
type Replica struct {
	ID        int64  `json:"id"` // from 1
	Address   string `json:"address"`
	CheckCode string `json:"checkCode"` // what it showed when it took the id
}

// Group is the replicas of one broker name.
type Group struct {
	Cluster string `json:"cluster"`
	Name    string `json:"name"`
	// NextID is the id for the next new replica.
	NextID   int64     `json:"nextId"`
	Replicas []Replica `json:"replicas"` // by id
	// Master is the id of the master, 0 without one.
	Master int64 `json:"master"`
	// MasterEpoch is 0 until the first election.
	MasterEpoch       int32   `json:"masterEpoch"`
	SyncStateSet      []int64 `json:"syncStateSet"` // ascending
	SyncStateSetEpoch int32   `json:"syncStateSetEpoch"`
}

// Replica finds a replica, nil if there is none with that id.
func (g *Group) Replica(id int64) *Replica {
	if i, ok := g.find(id); ok {
		return &g.Replicas[i]
	}
	return nil
}

func (g *Group) find(id int64) (int, bool) {
	return slices.BinarySearchFunc(g.Replicas, id, func(r Replica, id int64) int { return cmp.Compare(r.ID, id) })
}

// Address of a replica, "" if there is none with that id.
func (g *Group) Address(id int64) string {
	if r := g.Replica(id); r != nil {
		return r.Address
	}
	return ""
}

// InSync tells whether id is in the SyncStateSet.
func (g *Group) InSync(id int64) bool { return slices.Contains(g.SyncStateSet, id) }

func (g *Group) clone() *Group {
	c := *g
	c.Replicas, c.SyncStateSet = slices.Clone(g.Replicas), slices.Clone(g.SyncStateSet)
	return &c
}

// State is all broker names. Its methods are not safe for concurrent use.
type State struct {
	groups   map[string]*Group // by broker name
	replicas int               // of all
}

// New makes an empty state.
func New() *State { return &State{groups: map[string]*Group{}} }

// Group gives a copy of a broker name's replicas, nil if it is not registered.
func (s *State) Group(name string) *Group {
	if g := s.groups[name]; g != nil {
		return g.clone()
	}
	return nil
}

// Names are the registered broker names, sorted.
func (s *State) Names() []string { return slices.Sorted(maps.Keys(s.groups)) }

// NextID is the id that a new replica of the broker name should apply for.
func (s *State) NextID(name string) int64 {
	if g := s.groups[name]; g != nil {
		return g.NextID
	}
	return firstID
}

// snapshotVersion is the format of Snapshot.
const snapshotVersion = 1

type snapshot struct {
	Version int      `json:"version"`
	Groups  []*Group `json:"groups"` // by name
}

// Snapshot is the whole state. Equal states have equal snapshots.
func (s *State) Snapshot() []byte {
	snap := snapshot{Version: snapshotVersion, Groups: []*Group{}}
	for _, name := range s.Names() {
		snap.Groups = append(snap.Groups, s.groups[name])
	}
	b, err := json.Marshal(snap)
	if err != nil {
		panic("BUG: replicas: state does not encode: " + err.Error()) // plain fields only
	}
	return b
}

// Restore reads a snapshot. Empty bytes are an empty state.
func Restore(b []byte) (*State, error) {
	s := New()
	if len(b) == 0 {
		return s, nil
	}
	var snap snapshot
	if err := json.Unmarshal(b, &snap); err != nil {
		return nil, fmt.Errorf("replicas: snapshot: %w", err)
	}
	if snap.Version != snapshotVersion {
		return nil, fmt.Errorf("replicas: snapshot has version %d, this program reads %d", snap.Version, snapshotVersion)
	}
	for _, g := range snap.Groups {
		if g == nil || g.Name == "" || s.groups[g.Name] != nil {
			return nil, fmt.Errorf("replicas: snapshot: a broker name is missing or stands twice")
		}
		s.groups[g.Name] = g
		s.replicas += len(g.Replicas)
	}
	return s, nil
}
