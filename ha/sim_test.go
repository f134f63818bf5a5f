package ha

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/store"
	"skylark/zerocopy"
)

// simLog is a log in memory: records of 16 to 79 bytes, size and offset first, in files of simFile bytes that records do
// not cross.
type simLog struct {
	min   store.PhyOffset
	bytes []byte // from min on
	drops int
	shown store.PhyOffset
}

const simFile = 4096

type noOwner struct{}

func (noOwner) Release() {}

func (l *simLog) MinPhyOffset() store.PhyOffset { return l.min }
func (l *simLog) MaxPhyOffset() store.PhyOffset { return l.min + store.PhyOffset(len(l.bytes)) }

func (l *simLog) DispatchedWhere() store.PhyOffset { return l.shown }

func (l *simLog) ReadLog(from store.PhyOffset, maxBytes int) (zerocopy.Segment, bool) {
	if from < l.min || from >= l.MaxPhyOffset() {
		return zerocopy.Segment{}, false
	}
	n := min(int(l.MaxPhyOffset()-from), maxBytes, simFile-int(from%simFile))
	at := int(from - l.min)
	return zerocopy.Segment{Bytes: l.bytes[at : at+n], Owner: noOwner{}}, true
}

// put appends a record of random bytes, behind a blank one if the file has no room.
func (l *simLog) put(rnd *rand.Rand) {
	rec := make([]byte, 16+rnd.IntN(64))
	if rest := simFile - int(l.MaxPhyOffset()%simFile); rest < len(rec) {
		l.bytes = append(l.bytes, make([]byte, rest)...)
	}
	binary.BigEndian.PutUint32(rec, uint32(len(rec)))
	binary.BigEndian.PutUint64(rec[4:], uint64(l.MaxPhyOffset()))
	binary.BigEndian.PutUint32(rec[12:], rnd.Uint32())
	l.bytes = append(l.bytes, rec...)
}

// next is the end of the record at p, or p if it is not whole or none.
func (l *simLog) next(p store.PhyOffset) store.PhyOffset {
	b := l.bytes[p-l.min:]
	if len(b) < 16 {
		return p
	}
	size := int(binary.BigEndian.Uint32(b))
	switch {
	case size == 0:
		if end := (p/simFile + 1) * simFile; end <= l.MaxPhyOffset() {
			return end
		}
		return p
	case size < 16 || size > 80 || size > len(b) || store.PhyOffset(binary.BigEndian.Uint64(b[4:])) != p:
		return p
	}
	return p + store.PhyOffset(size)
}

func (l *simLog) RecordStart(p store.PhyOffset) (store.PhyOffset, error) {
	at := l.min
	for {
		next := l.next(at)
		if next == at || next > p {
			return at, nil
		}
		at = next
	}
}

func (l *simLog) AppendLog(at store.PhyOffset, b []byte) error {
	switch {
	case len(l.bytes) == 0 && at%simFile == 0:
		l.min = at
	case at != l.MaxPhyOffset():
		return fmt.Errorf("%w: at %d, end %d", store.ErrLogGap, at, l.MaxPhyOffset())
	}
	l.bytes = append(l.bytes, b...)
	return nil
}

func (l *simLog) TruncateLog(p store.PhyOffset) error {
	l.bytes = bytes.Clone(l.bytes[:p-l.min])
	return nil
}

func (l *simLog) DropLog(bool) error {
	l.min, l.bytes = 0, nil
	l.drops++
	return nil
}

// expire deletes whole files from the front.
func (l *simLog) expire(files int) {
	for ; files > 0 && len(l.bytes) > 2*simFile; files-- {
		l.min += simFile
		l.bytes = bytes.Clone(l.bytes[simFile:])
	}
}

// sim drives one master and one slave, on one goroutine, in virtual time; everything random comes from a seed.
type sim struct {
	t      *testing.T
	seed   uint64
	rnd    *rand.Rand
	now    int64
	master *simLog
	slave  *simLog
	f      *follower

	link     masterLink
	open     bool
	toSlave  []byte // on the wire
	toMaster []byte
	ranges   bool // the slave can ask for the master's range
}

func (s *sim) connect() {
	s.link, s.open = newMasterLink(s.now), true
	s.toSlave, s.toMaster = nil, nil
	var known *Range
	if s.ranges && s.rnd.IntN(4) > 0 {
		known = &Range{s.master.MinPhyOffset(), s.master.MaxPhyOffset()}
	}
	first, err := s.f.begin(s.now, known)
	if err != nil {
		s.open = false
		return
	}
	s.toMaster = binary.BigEndian.AppendUint64(nil, uint64(first))
}

// fail ends the connection.
func (s *sim) fail(err error) {
	s.open = false
	if errors.Is(err, store.ErrLogGap) {
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
}

func (s *sim) takeSome(b *[]byte) []byte {
	n := 1 + s.rnd.IntN(len(*b))
	out := (*b)[:n:n]
	*b = (*b)[n:]
	return out
}

// step lets one thing happen.
func (s *sim) step() {
	s.now += int64(s.rnd.IntN(400))
	if !s.open {
		s.connect()
		return
	}
	ends := logEnds{min: s.master.MinPhyOffset(), max: s.master.MaxPhyOffset(), fileBytes: simFile}
	switch s.rnd.IntN(4) {
	case 0: // the master reads
		if len(s.toMaster) == 0 {
			break
		}
		acked, err := s.link.received(s.takeSome(&s.toMaster), s.now, ends)
		if err != nil {
			if h, ok := s.link.refusal(); ok {
				_ = s.f.received(appendHeader(s.toSlave, h), s.now)
			}
			s.fail(err)
			return
		}
		if acked {
			s.checkAck()
		}
	case 1: // the master writes
		what, ok := s.link.due(s.now, 5000, ends.max)
		switch {
		case !ok:
		case what.heartbeat:
			s.toSlave = appendHeader(s.toSlave, header{phyOffset: what.from})
			s.link.sent(0, s.now)
		default:
			seg, ok := s.master.ReadLog(what.from, 1+s.rnd.IntN(500))
			if !ok {
				s.fail(errLeftBehind)
				return
			}
			s.toSlave = append(appendHeader(s.toSlave, header{what.from, len(seg.Bytes)}), seg.Bytes...)
			s.link.sent(len(seg.Bytes), s.now)
		}
	case 2: // the slave reads
		if len(s.toSlave) == 0 {
			break
		}
		if err := s.f.received(s.takeSome(&s.toSlave), s.now); err != nil {
			s.fail(err)
			return
		}
	}
	if offset, ok := s.f.report(s.now, 5000); ok {
		s.toMaster = binary.BigEndian.AppendUint64(s.toMaster, uint64(offset))
	}
}

// checkAck: what the master believes that the slave has, it has.
func (s *sim) checkAck() {
	from, to := max(s.master.min, s.slave.min), s.link.ack
	if s.slave.MaxPhyOffset() == 0 || to <= from {
		return
	}
	require.GreaterOrEqual(s.t, s.slave.MaxPhyOffset(), to, "seed %d: confirmed without having it", s.seed)
	if s.link.ack == s.link.next || s.link.ack > s.f.checkTo { // behind the comparison everything before was equal
		a, b := s.master.bytes[from-s.master.min:to-s.master.min], s.slave.bytes[from-s.slave.min:to-s.slave.min]
		require.True(s.t, bytes.Equal(a, b), "seed %d: confirmed up to %d with other bytes", s.seed, to)
	}
}

// disturb changes the world.
func (s *sim) disturb() {
	switch s.rnd.IntN(6) {
	case 0:
		s.open = false
	case 1, 2:
		for range s.rnd.IntN(200) {
			s.master.put(s.rnd)
		}
	case 3: // the master lost its last messages
		cut := max(s.master.MaxPhyOffset()-store.PhyOffset(s.rnd.IntN(5000)), s.master.min+1)
		start, _ := s.master.RecordStart(cut)
		if start > s.master.min {
			_ = s.master.TruncateLog(start)
		}
		s.open = false
	case 4: // the slave got messages of another master
		if s.slave.MaxPhyOffset() > 0 {
			start, _ := s.slave.RecordStart(s.slave.MaxPhyOffset())
			_ = s.slave.TruncateLog(start)
			for range s.rnd.IntN(100) {
				s.slave.put(s.rnd)
			}
		}
		s.open = false
	case 5:
		if s.rnd.IntN(3) == 0 {
			s.master.expire(1 + s.rnd.IntN(3))
			s.open = false
		}
	}
}

// Whatever happens to links and logs, the slave ends with the master's bytes, and nothing is confirmed that it has not.
func TestSimulatedPair(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 50
	}
	for seed := range uint64(seeds) {
		s := &sim{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 1)), master: &simLog{}, slave: &simLog{},
			ranges: seed%2 == 0}
		s.f = newFollower(s.slave, quietLog)
		s.master.put(s.rnd)
		for range 10 {
			s.disturb()
			for range s.rnd.IntN(400) {
				s.step()
			}
		}
		for s.master.put(s.rnd); s.master.MaxPhyOffset() <= s.slave.min+100; {
			s.master.put(s.rnd) // a master that ends before the slave's begin takes nothing away
		}
		same := func() bool {
			from := max(s.slave.min, s.master.min)
			return s.slave.MaxPhyOffset() == s.master.MaxPhyOffset() &&
				bytes.Equal(s.master.bytes[from-s.master.min:], s.slave.bytes[from-s.slave.min:])
		}
		for n := 0; !same() && n < 400_000; n++ {
			s.step()
		}
		require.True(t, same(), "seed %d: master [%d,%d), slave [%d,%d)", seed, s.master.min, s.master.MaxPhyOffset(),
			s.slave.min, s.slave.MaxPhyOffset())
	}
}
