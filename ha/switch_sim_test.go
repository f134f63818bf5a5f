package ha

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/store"
)

// switchNode is a replica of the simulation: its log, its part, and what it knows of the controller.
type switchNode struct {
	id     int64
	log    *simLog
	epochs *Epochs
	down   bool

	masterEpoch int32
	leads       bool
	set         SyncSet
	f           *SwitchFollower
	masterID    int64
}

// switchWire is a connection of a slave with a master.
type switchWire struct {
	slave, master     *switchNode
	link              *SwitchLink
	known             bool // the master has its introduction
	acked             store.PhyOffset
	toSlave, toMaster []byte
}

// switchAsk is a request for another SyncStateSet, or an answer.
type switchAsk struct {
	node        *switchNode
	masterEpoch int32
	setEpoch    int32
	set         []int64
	answer      bool
}

// switchSim drives three replicas and a controller that never fails, on one goroutine, in virtual time.
type switchSim struct {
	t     *testing.T
	seed  uint64
	rnd   *rand.Rand
	now   int64
	nodes []*switchNode
	wires []*switchWire
	asks  []switchAsk
	calm  bool // nothing fails any more

	master   int64 // the controller's state
	epoch    int32
	set      []int64
	setEpoch int32
	takenFor map[int64]int64 // dead for the controller until then

	confirmed []byte // of offset 0 on: nothing of it may be lost or differ
	elections int
}

var flagSeeds = flag.Int("seeds", 60, "runs of the simulation of automatic switching")

func newSwitchSim(t *testing.T, seed uint64) *switchSim {
	s := &switchSim{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 2)), now: 100_000, takenFor: map[int64]int64{}}
	for id := range int64(3) {
		n := &switchNode{id: id + 1, log: &simLog{}, epochs: NewEpochs(), masterEpoch: NoEpoch}
		n.f = NewSwitchFollower(n.log, n.epochs, quietLog)
		s.nodes = append(s.nodes, n)
	}
	s.elect(1)
	return s
}

func (s *switchSim) failf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("seed %d at %d ms: %s", s.seed, s.now, fmt.Sprintf(format, args...))
}

func (s *switchSim) node(id int64) *switchNode { return s.nodes[id-1] }

// alive is what the controller believes.
func (s *switchSim) alive(n *switchNode) bool { return !n.down && s.now >= s.takenFor[n.id] }

// elect is the controller's decision. The elected one has everything that was confirmed.
func (s *switchSim) elect(id int64) {
	s.elections++
	s.master, s.epoch, s.set = id, s.epoch+1, []int64{id}
	s.setEpoch++
	if log := s.node(id).log; !bytes.HasPrefix(log.bytes, s.confirmed) {
		s.failf("replica %d is elected without [..,%d): its log ends at %d", id, len(s.confirmed), len(log.bytes))
	}
}

// told has a replica take its role.
func (s *switchSim) told(n *switchNode) {
	if n.down || n.masterEpoch == s.epoch {
		return
	}
	s.wires = slices.DeleteFunc(s.wires, func(w *switchWire) bool { return w.slave == n || w.master == n && s.closed(w) })
	confirmed := n.f.Confirmed()
	if n.leads {
		confirmed = n.set.Confirmed(n.log.MaxPhyOffset())
		n.set.Leave()
	}
	n.masterEpoch, n.masterID, n.leads = s.epoch, s.master, s.master == n.id
	if !n.leads {
		return
	}
	end, _ := n.log.RecordStart(n.log.MaxPhyOffset())
	if end < n.log.MaxPhyOffset() {
		_ = n.log.TruncateLog(end)
	}
	require.NoError(s.t, n.epochs.TruncateSuffix(end+1))
	if n.epochs.Last() != s.epoch {
		require.NoError(s.t, n.epochs.Append(s.epoch, end))
	}
	n.set.Lead(n.id, s.set, s.setEpoch, min(confirmed, end), s.now)
}

// closed ends a connection for the master.
func (s *switchSim) closed(w *switchWire) bool {
	if w.known {
		w.master.set.Closed(w.slave.id)
	}
	return true
}

func (s *switchSim) drop(w *switchWire) {
	s.closed(w)
	s.wires = slices.DeleteFunc(s.wires, func(x *switchWire) bool { return x == w })
}

// connect makes the connections that are missing.
func (s *switchSim) connect(n *switchNode) {
	if n.down || n.leads || n.masterID == 0 || slices.ContainsFunc(s.wires, func(w *switchWire) bool { return w.slave == n }) {
		return
	}
	m := s.node(n.masterID)
	if m.down || !m.leads {
		return
	}
	w := &switchWire{slave: n, master: m, link: NewSwitchLink(m.epochs, s.now), acked: -1}
	w.toMaster = n.f.Begin(s.now, n.id, false, false, nil)
	s.wires = append(s.wires, w)
}

func (s *switchSim) some(b *[]byte) []byte {
	n := 1 + s.rnd.IntN(len(*b))
	out := (*b)[:n:n]
	*b = (*b)[n:]
	return out
}

// step lets one thing happen to a connection.
func (s *switchSim) step(w *switchWire) {
	m, end := w.master, w.master.log.MaxPhyOffset()
	switch s.rnd.IntN(3) {
	case 0:
		if len(w.toMaster) == 0 {
			break
		}
		err := w.link.Received(s.some(&w.toMaster), s.now, LogEnds{Min: m.log.min, Max: end, FileBytes: simFile})
		if err != nil {
			if frame, ok := w.link.Refusal(); ok {
				_ = w.slave.f.Received(frame, s.now)
			}
			s.drop(w)
			return
		}
		if id, learner, ok := w.link.Slave(); ok && !w.known {
			w.known = true
			m.set.Connected(id, learner, s.now)
		}
		if ack := w.link.Ack(); ack > w.acked {
			w.acked = ack
			m.set.Acked(w.slave.id, ack, end, s.now)
		}
	case 1:
		what, ok := w.link.Due(s.now, 5000, end, m.set.Confirmed(end))
		switch {
		case !ok:
		case what.Handshake:
			w.toSlave = append(w.toSlave, w.link.Handshake(s.now, end)...)
		case what.Heartbeat:
			w.toSlave = w.link.AppendHead(w.toSlave, what.From, 0, m.set.Confirmed(end))
			w.link.Sent(0, m.set.Confirmed(end), s.now)
		default:
			seg, ok := m.log.ReadLog(what.From, w.link.Limit(what.From, 1+s.rnd.IntN(500)))
			if !ok {
				s.failf("master %d has nothing at %d", m.id, what.From)
			}
			w.toSlave = w.link.AppendHead(w.toSlave, what.From, len(seg.Bytes), m.set.Confirmed(end))
			w.toSlave = append(w.toSlave, seg.Bytes...)
			w.link.Sent(len(seg.Bytes), m.set.Confirmed(end), s.now)
		}
	case 2:
		if len(w.toSlave) == 0 {
			break
		}
		if err := w.slave.f.Received(s.some(&w.toSlave), s.now); err != nil {
			if errors.Is(err, store.ErrLogGap) {
				s.failf("slave %d: %v", w.slave.id, err)
			}
			s.drop(w)
			return
		}
	}
	if frame, ok := w.slave.f.Due(s.now, 5000); ok {
		w.toMaster = append(w.toMaster, frame...)
	}
}

// check has everything that a master takes for confirmed on record.
func (s *switchSim) check(n *switchNode) {
	if !n.leads || n.down {
		return
	}
	confirm, _ := n.log.RecordStart(n.set.Confirmed(n.log.MaxPhyOffset())) // of whole records
	have := n.log.bytes[:confirm]
	common := min(len(have), len(s.confirmed))
	if !bytes.Equal(have[:common], s.confirmed[:common]) {
		at := 0
		for have[at] == s.confirmed[at] {
			at++
		}
		s.failf("master %d of epoch %d confirms up to %d other bytes than were confirmed, from %d of %d on; epoch is %d of %d, "+
			"set %v", n.id, n.masterEpoch, confirm, at, len(s.confirmed), s.epoch, s.master, s.set)
	}
	if len(have) > len(s.confirmed) {
		s.confirmed = append(s.confirmed, have[common:]...)
		for _, id := range s.set { // whoever can be elected has it
			if !bytes.HasPrefix(s.node(id).log.bytes, s.confirmed) && n.masterEpoch == s.epoch {
				s.failf("master %d confirms up to %d, member %d ends at %d", n.id, confirm, id, len(s.node(id).log.bytes))
			}
		}
	}
}

// tick lets a master look at its set, and requests and answers travel.
func (s *switchSim) tick(n *switchNode) {
	if n.leads && !n.down {
		if ask := n.set.Tick(n.log.MaxPhyOffset(), s.now, 15_000); ask != nil {
			_, setEpoch := n.set.Set()
			s.asks = append(s.asks, switchAsk{node: n, masterEpoch: n.masterEpoch, setEpoch: setEpoch, set: ask})
		}
	}
	if len(s.asks) == 0 {
		return
	}
	i := s.rnd.IntN(len(s.asks))
	a := s.asks[i]
	s.asks = slices.Delete(s.asks, i, i+1)
	if !s.calm && s.rnd.IntN(5) == 0 {
		return // lost
	}
	if a.answer {
		if a.node.leads && !a.node.down && a.node.masterEpoch == a.masterEpoch {
			if a.set == nil {
				a.node.set.Refused(s.now)
			} else {
				a.node.set.Word(a.set, a.setEpoch)
			}
		}
		return
	}
	if a.masterEpoch != s.epoch {
		return
	}
	dead := slices.ContainsFunc(a.set, func(id int64) bool { return !s.alive(s.node(id)) })
	switch {
	case a.setEpoch != s.setEpoch: // fenced: it asks for the set
	case dead:
		s.asks = append(s.asks, switchAsk{node: a.node, masterEpoch: a.masterEpoch, answer: true})
		return
	default:
		s.set, s.setEpoch = a.set, s.setEpoch+1
	}
	s.asks = append(s.asks, switchAsk{node: a.node, masterEpoch: a.masterEpoch, answer: true, set: s.set,
		setEpoch: s.setEpoch})
}

// control is the controller: a master that is dead for it is replaced by any living member of the set.
func (s *switchSim) control() {
	if s.alive(s.node(s.master)) {
		return
	}
	var living []int64
	for _, id := range s.set {
		if s.alive(s.node(id)) {
			living = append(living, id)
		}
	}
	if len(living) > 0 {
		s.elect(living[s.rnd.IntN(len(living))])
	}
}

// disturb changes the world.
func (s *switchSim) disturb() {
	n := s.nodes[s.rnd.IntN(3)]
	switch s.rnd.IntN(8) {
	case 0:
		if len(s.wires) > 0 {
			s.drop(s.wires[s.rnd.IntN(len(s.wires))])
		}
	case 1: // the process ends, and comes back some time
		for _, w := range slices.Clone(s.wires) {
			if w.slave == n || w.master == n {
				s.drop(w)
			}
		}
		n.down, n.leads, n.masterEpoch, n.masterID = true, false, NoEpoch, 0
		n.set.Leave()
		n.f = NewSwitchFollower(n.log, n.epochs, quietLog)
	case 2, 3:
		n.down = false
	case 4: // the controller does not hear it; it goes on
		s.takenFor[n.id] = s.now + int64(s.rnd.IntN(20_000))
	case 5: // a poll of a master, whose answer may be late
		if n.leads {
			s.asks = append(s.asks, switchAsk{node: n, masterEpoch: s.epoch, answer: true, set: s.set, setEpoch: s.setEpoch})
		}
	case 6: // a switch by hand
		if id := s.set[s.rnd.IntN(len(s.set))]; id != s.master && s.alive(s.node(id)) {
			s.elect(id)
		}
	}
}

func (s *switchSim) round() {
	s.now += int64(s.rnd.IntN(30))
	for _, n := range s.nodes {
		if n.leads && !n.down && s.rnd.IntN(8) == 0 {
			n.log.put(s.rnd)
		}
		if s.calm || s.rnd.IntN(30) == 0 {
			s.told(n)
		}
		if s.calm || s.rnd.IntN(10) == 0 {
			s.connect(n)
		}
	}
	for _, w := range slices.Clone(s.wires) {
		if s.rnd.IntN(3) > 0 && slices.Contains(s.wires, w) {
			s.step(w)
		}
	}
	if s.rnd.IntN(10) == 0 {
		s.tick(s.nodes[s.rnd.IntN(3)])
	}
	if s.rnd.IntN(20) == 0 {
		s.control()
	}
	for _, n := range s.nodes {
		s.check(n)
	}
}

// Whatever fails, whoever is elected of the SyncStateSet has what was confirmed, and in the end all have the same.
func TestSwitchSimulated(t *testing.T) {
	seeds := *flagSeeds
	if testing.Short() {
		seeds = 10
	}
	elections, confirmed := 0, 0
	for seed := range uint64(seeds) {
		s := newSwitchSim(t, seed)
		for range 6000 {
			s.round()
			if s.rnd.IntN(60) == 0 {
				s.disturb()
			}
		}
		s.calm = true
		clear(s.takenFor)
		for _, n := range s.nodes {
			n.down = false
		}
		for n := 0; !s.settled(); n++ {
			if n == 100_000 {
				for _, n := range s.nodes {
					t.Logf("%d: leads %t epoch %d, log %d, epochs %v", n.id, n.leads, n.masterEpoch, n.log.MaxPhyOffset(),
						n.epochs.Entries())
				}
				s.failf("not settled: set %v, confirmed %d", s.set, len(s.confirmed))
			}
			s.round()
		}
		elections += s.elections
		confirmed += len(s.confirmed)
	}
	t.Logf("%d elections, %d bytes confirmed", elections, confirmed)
	require.Greater(t, elections, 2*seeds)
}

// settled tells that all have the same, confirmed.
func (s *switchSim) settled() bool {
	m := s.node(s.master)
	if !m.leads || m.masterEpoch != s.epoch || len(s.set) != 3 || m.set.InSync() != 3 {
		return false
	}
	for _, n := range s.nodes {
		if int(m.set.Confirmed(m.log.MaxPhyOffset()))+500 < len(m.log.bytes) {
			return false
		}
		if n != m && (n.leads || !bytes.HasPrefix(m.log.bytes, n.log.bytes)) {
			return false
		}
	}
	return true
}
