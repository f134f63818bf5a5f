package replicas

import (
	"errors"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/internal/vfs"
)

var errNetwork = errors.New("no answer")

// group is a fake of the controllers: one leads, of two.
type group struct {
	t       *testing.T
	leader  string
	down    bool // nobody answers
	lose    bool // the leader does what is asked, its answer is lost
	nextID  int64
	ids     map[int64]string // check codes
	view    View
	alive   map[int64]bool
	refuse  map[Kind]int // codes
	asked   []Kind       // but metadata
	address map[int64]string
}

func newGroup(t *testing.T) *group {
	return &group{t: t, leader: "c1", nextID: 1, ids: map[int64]string{}, alive: map[int64]bool{}, refuse: map[Kind]int{},
		address: map[int64]string{}}
}

func (g *group) elect(id int64) {
	g.view = View{Master: id, Address: g.address[id], Epoch: g.view.Epoch + 1, SyncStateSet: []int64{id},
		SyncStateSetEpoch: g.view.SyncStateSetEpoch + 1}
}

// answer does what r asks, nil = no answer.
func (g *group) answer(r *Request) *Answer {
	a := &Answer{Kind: r.Kind, MasterEpoch: r.MasterEpoch}
	if g.down {
		a.Err = errNetwork
		return a
	}
	if r.Kind == KindMetadata {
		a.Leader, a.IsLeader = g.leader, r.To == g.leader
		return a
	}
	g.asked = append(g.asked, r.Kind)
	if code := g.refuse[r.Kind]; code != 0 {
		a.Code = code
		return a
	}
	if r.To != g.leader {
		a.Code = codec.RespControllerNotLeader
		return a
	}
	g.apply(r, a)
	if g.lose {
		return &Answer{Kind: r.Kind, Err: errNetwork}
	}
	return a
}

func (g *group) apply(r *Request, a *Answer) {
	switch r.Kind {
	case KindNextID:
		a.BrokerID = g.nextID
	case KindApplyID:
		if code, ok := g.ids[r.BrokerID]; ok && code != r.CheckCode {
			a.Code = codec.RespControllerBrokerIDInvalid
			return
		}
		g.ids[r.BrokerID] = r.CheckCode
		g.nextID = max(g.nextID, r.BrokerID+1)
	case KindRegister:
		if _, ok := g.ids[r.BrokerID]; !ok {
			a.Code = codec.RespControllerBrokerNeedToBeRegistered
			return
		}
		g.address[r.BrokerID] = r.Address
		a.View = g.view
	case KindElect:
		if g.view.Master != 0 {
			a.Code = codec.RespControllerMasterStillExist
		} else {
			g.elect(r.BrokerID)
		}
		a.View = g.view
	case KindReplicaInfo:
		a.View = g.view
	case KindAlterSet:
		switch {
		case r.MasterEpoch != g.view.Epoch || r.BrokerID != g.view.Master:
			a.Code = codec.RespControllerFencedMasterEpoch
		case r.SyncStateSetEpoch != g.view.SyncStateSetEpoch:
			a.Code = codec.RespControllerFencedSyncStateSetEpoch
		default:
			g.view.SyncStateSet, g.view.SyncStateSetEpoch = r.SyncStateSet, g.view.SyncStateSetEpoch+1
			a.View = g.view
		}
	}
}

// node is a manager with a fake of its broker.
type node struct {
	t     *testing.T
	g     *group
	m     *Manager
	now   time.Time
	fs    vfs.FS
	path  string
	beats int
	roles []Role
	sets  []View
	fence []bool

	refused int
	fail    error // of the next changes of role
	hold    bool  // changes of role are not answered
}

func newNode(t *testing.T, g *group, o Options) *node {
	n := &node{t: t, g: g, now: time.UnixMilli(1_700_000_000_000), fs: vfs.NewMem(), path: "/brokerIdentity"}
	n.start(o)
	return n
}

func (n *node) start(o Options) {
	o.Cluster, o.Name, o.Controllers = "c", "b", []string{"c1", "c2"}
	if o.Address == "" {
		o.Address = "10.0.0.1:10911"
	}
	o.HeartbeatInterval, o.HeartbeatTimeout = time.Second, 10*time.Second
	o.SyncControllerMetadataPeriod, o.SyncBrokerMetadataPeriod = 10*time.Second, 5*time.Second
	var err error
	o.Identity, err = LoadIdentity(n.fs, n.path, o.Cluster, o.Name)
	require.NoError(n.t, err)
	n.m = NewManager(o)
}

// settle does what the manager says until it says nothing more.
func (n *node) settle() {
	for range 100 {
		out := n.m.Work()
		if len(out.Requests) == 0 && out.Save == nil && out.Role == nil && out.Set == nil && out.Fence == nil && !out.Refused {
			n.beats += len(out.Heartbeats)
			return
		}
		n.beats += len(out.Heartbeats)
		if out.Save != nil {
			n.m.Saved(n.now, out.Save.Save(n.fs, n.path))
		}
		if out.Fence != nil {
			n.fence = append(n.fence, *out.Fence)
		}
		if out.Refused {
			n.refused++
		}
		if out.Set != nil {
			n.sets = append(n.sets, *out.Set)
		}
		if out.Role != nil && !n.hold {
			if n.fail == nil {
				n.roles = append(n.roles, *out.Role)
			}
			n.m.RoleDone(n.now, n.fail)
		}
		for i := range out.Requests {
			n.m.Answer(n.now, out.Requests[i].ID, n.g.answer(&out.Requests[i]))
		}
	}
	n.t.Fatal("the manager never rests")
}

// run lets time pass.
func (n *node) run(d time.Duration) {
	for end := n.now.Add(d); n.now.Before(end); {
		n.now = n.now.Add(100 * time.Millisecond)
		n.m.Tick(n.now)
		n.settle()
	}
}

func (n *node) files() (given, temp string) {
	a, _ := vfs.ReadFile(n.fs, n.path)
	b, _ := vfs.ReadFile(n.fs, n.path+TempSuffix)
	return string(a), string(b)
}

// Java ReplicasManager.startBasicService: the first broker of a name gets id 1 and is elected, the second is its slave.
func TestFirstBrokers(t *testing.T) {
	g := newGroup(t)
	a := newNode(t, g, Options{})
	a.run(time.Second)
	require.Equal(t, []Kind{KindNextID, KindApplyID, KindRegister, KindElect}, g.asked)
	given, temp := a.files()
	require.Equal(t, "c#b#1", given)
	require.Empty(t, temp)
	require.Equal(t, []Role{{Master: true, Epoch: 1, MasterID: 1, MasterAddress: "10.0.0.1:10911", SyncStateSet: []int64{1},
		SyncStateSetEpoch: 1}}, a.roles)
	require.Equal(t, StageRunning, a.m.Stage())
	require.EqualValues(t, 1, a.m.ID())

	b := newNode(t, g, Options{Address: "10.0.0.2:10911"})
	b.run(time.Second)
	require.EqualValues(t, 2, b.m.ID())
	require.Len(t, b.roles, 1)
	require.False(t, b.roles[0].Master)
	require.Equal(t, "10.0.0.1:10911", b.roles[0].MasterAddress)
	b.beats = 0
	b.run(10 * time.Second)
	require.InDelta(t, 20, b.beats, 2, "every second to each controller")
}

// What was written before a crash is used: an id that was chosen is applied for with the same check code, one that was
// given is kept.
func TestIdentity(t *testing.T) {
	g := newGroup(t)
	n := newNode(t, g, Options{})
	g.refuse[KindApplyID] = codec.RespSystemBusy
	n.run(time.Second)
	_, temp := n.files()
	require.Contains(t, temp, "c#b#1#10.0.0.1:10911;")
	n.start(Options{})
	require.Equal(t, StageApply, n.m.Stage())
	clear(g.refuse)
	n.run(time.Second)
	require.Contains(t, temp, g.ids[1])
	n.start(Options{})
	n.run(time.Second)
	require.EqualValues(t, 1, n.m.ID())
	require.EqualValues(t, 2, g.nextID, "none was given out besides")

	f := func(file, text, want string) {
		t.Helper()
		fsys := vfs.NewMem()
		require.NoError(t, vfs.WriteFileAtomic(fsys, path.Join("/", file), []byte(text), false))
		_, err := LoadIdentity(fsys, "/brokerIdentity", "c", "b")
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, ErrIdentity)
		require.ErrorContains(t, err, want)
	}
	f("brokerIdentity", "", "")
	f("brokerIdentity", "c#b#7\n", "")
	f("brokerIdentity", "c#other#7", `want brokerClusterName "c" and brokerName "b"`)
	f("brokerIdentity", "c#b#x", `"x" is no broker id`)
	f("brokerIdentity-temp", "c#b#7", "no check code")
	f("brokerIdentity-temp", "c#b#7#10.0.0.1:1;2", "")
}

// Two brokers choose the same id: the second one applies for another.
func TestIdTaken(t *testing.T) {
	g := newGroup(t)
	g.ids[1], g.nextID = "somebody else", 1
	n := newNode(t, g, Options{Jitter: func(n int64) int64 { return n / 2 }})
	n.run(300 * time.Millisecond)
	require.Equal(t, StageID, n.m.Stage())
	_, temp := n.files()
	require.NotEmpty(t, temp)
	g.nextID = 2
	n.run(2 * time.Second)
	require.EqualValues(t, 2, n.m.ID())
	given, temp := n.files()
	require.Equal(t, "c#b#2", given)
	require.Empty(t, temp)
}

// The leader is looked for again when it does not answer, or says that it does not lead.
func TestLeaderChanges(t *testing.T) {
	g := newGroup(t)
	n := newNode(t, g, Options{})
	n.run(time.Second)
	require.Equal(t, "c1", n.m.Leader())
	g.leader = "c2"
	n.run(6 * time.Second)
	require.Equal(t, "c2", n.m.Leader())
	g.down = true
	n.run(6 * time.Second)
	require.Empty(t, n.m.Leader())
	g.down = false
	g.elect(7)
	n.run(time.Second)
	require.Equal(t, "c2", n.m.Leader())
	require.Len(t, n.roles, 2, "the role is asked for as soon as somebody leads")
}

// Roles change by what names a higher epoch, whoever says it, and only by that.
func TestRoles(t *testing.T) {
	g := newGroup(t)
	n := newNode(t, g, Options{})
	n.run(time.Second)
	g.address[2] = "10.0.0.2:10911"
	old := g.view
	g.elect(2)
	n.m.Notified(n.now, &g.view)
	n.settle()
	require.Len(t, n.roles, 2)
	require.False(t, n.roles[1].Master)
	n.m.Notified(n.now, &old)
	n.settle()
	require.Len(t, n.roles, 2, "an old notice")

	g.elect(1)
	n.run(6 * time.Second) // the notice was lost
	require.Len(t, n.roles, 3)
	require.True(t, n.roles[2].Master)

	n.hold = true // a change takes long; meanwhile there is another one, and the first fails
	g.elect(2)
	n.m.Notified(n.now, &g.view)
	n.settle()
	g.elect(1)
	n.m.Notified(n.now, &g.view)
	n.settle()
	n.hold = false
	n.m.RoleDone(n.now, errNetwork)
	n.settle()
	require.Len(t, n.roles, 4)
	require.True(t, n.roles[3].Master)
	require.EqualValues(t, 5, n.roles[3].Epoch)

	g.elect(2)
	n.fail = errNetwork
	n.m.Notified(n.now, &g.view)
	n.settle()
	n.fail = nil
	n.run(2 * time.Second)
	require.Len(t, n.roles, 5, "tried again")

	g.view.Address = "10.0.0.9:10911" // the master is somewhere else
	n.run(6 * time.Second)
	require.Len(t, n.roles, 6)
	require.Equal(t, "10.0.0.9:10911", n.roles[5].MasterAddress)
}

// The SyncStateSet is what the controllers say. A wish whose answer was lost is not forgotten, nor believed.
func TestSyncStateSet(t *testing.T) {
	g := newGroup(t)
	n := newNode(t, g, Options{})
	n.run(time.Second)
	n.m.WantSet(n.now, []int64{2, 1})
	n.settle()
	require.Equal(t, []int64{1, 2}, g.view.SyncStateSet)
	require.Equal(t, []int64{1, 2}, n.sets[len(n.sets)-1].SyncStateSet)

	// The answer is lost (apache/rocketmq#5663): until the controllers say what they have, nothing is told.
	told := len(n.sets)
	g.lose = true
	n.m.WantSet(n.now, []int64{1})
	n.m.Tick(n.now)
	out := n.m.Work()
	require.Len(t, out.Requests, 1)
	n.m.Answer(n.now, out.Requests[0].ID, g.answer(&out.Requests[0]))
	require.Equal(t, []int64{1}, g.view.SyncStateSet)
	g.lose = false
	require.Len(t, n.sets, told)
	n.run(2 * time.Second)
	require.Equal(t, []int64{1}, n.sets[len(n.sets)-1].SyncStateSet)
	require.EqualValues(t, 3, n.sets[len(n.sets)-1].SyncStateSetEpoch)

	// A refusal is final, and told.
	require.Zero(t, n.refused)
	g.refuse[KindAlterSet] = codec.RespControllerBrokerNotAlive
	n.m.WantSet(n.now, []int64{1, 3})
	n.settle()
	require.Equal(t, 1, n.refused)
	clear(g.refuse)
	n.run(10 * time.Second)
	require.Equal(t, []int64{1}, g.view.SyncStateSet)

	// Somebody else is master by now: the refusal has it found out.
	g.elect(2)
	n.m.WantSet(n.now, []int64{1, 3})
	n.settle()
	require.False(t, n.roles[len(n.roles)-1].Master)
	n.m.WantSet(n.now, []int64{1, 3})
	n.run(time.Second)
	require.Equal(t, []int64{2}, g.view.SyncStateSet, "a slave wants nothing")
}

// A master that was killed lets the others of its set go first.
func TestUnclean(t *testing.T) {
	g := newGroup(t)
	n := newNode(t, g, Options{})
	n.run(time.Second)
	g.view.SyncStateSet = []int64{1, 2}
	g.address[2] = "10.0.0.2:10911"
	n.beats = 0
	n.roles = nil
	n.start(Options{Unclean: true})
	n.run(3 * time.Second)
	require.Empty(t, n.roles)
	require.Zero(t, n.beats)
	g.elect(2)
	n.run(time.Second)
	require.Len(t, n.roles, 1)
	require.False(t, n.roles[0].Master)
	require.NotZero(t, n.beats)

	g.elect(1) // nobody else can
	g.view.SyncStateSet = []int64{1, 2}
	n.roles = nil
	n.start(Options{Unclean: true})
	n.run(10 * time.Second)
	require.Empty(t, n.roles)
	n.run(10 * time.Second)
	require.Len(t, n.roles, 1)
	require.True(t, n.roles[0].Master)

	n.roles = nil
	n.start(Options{})
	n.run(time.Second)
	require.True(t, n.roles[0].Master, "it was stopped in order")
}

// With a lease a master without controllers stops taking messages.
func TestLease(t *testing.T) {
	g := newGroup(t)
	n := newNode(t, g, Options{Lease: 6 * time.Second})
	n.run(20 * time.Second)
	require.Empty(t, n.fence)
	g.down = true
	n.run(3 * time.Second)
	require.Empty(t, n.fence)
	n.run(4 * time.Second)
	require.Equal(t, []bool{true}, n.fence)
	g.down = false
	n.run(time.Second)
	require.Equal(t, []bool{true, false}, n.fence)
	g.down = true
	n.run(8 * time.Second)
	g.down = false
	g.elect(2)
	n.run(2 * time.Second)
	require.Equal(t, []bool{true, false, true, false}, n.fence, "another one is master: it is a slave now")
	require.False(t, slices.ContainsFunc(n.roles[1:], func(r Role) bool { return r.Master }))
}

// The clock is set back by a day.
func TestClockJumps(t *testing.T) {
	g := newGroup(t)
	n := newNode(t, g, Options{})
	n.run(time.Second)
	n.now = n.now.Add(-24 * time.Hour)
	n.beats = 0
	g.elect(2)
	n.run(6 * time.Second)
	require.NotZero(t, n.beats)
	require.Len(t, n.roles, 2)
}
