package replicas

import (
	"slices"
	"time"

	"skylark/codec"
)

// Stage is how far a broker is with its controllers (Java ReplicasManager.State and RegisterState).
type Stage uint8

// The stages in their order.
const (
	StageID       Stage = iota // has no id: asks which is next
	StageApply                 // has chosen an id and applies for it
	StageRegister              // has its id and registers
	StageElect                 // is registered; there is no master, or the first role is not taken yet
	StageRunning               // has a role
)

func (s Stage) String() string {
	return [...]string{"id", "apply", "register", "elect", "running"}[s]
}

// Pauses of the manager.
const (
	// lookPause is between two looks for the leading controller while none is known.
	lookPause = 300 * time.Millisecond
	// stepPause is after a step that failed (Java: 5 s, 1 s at random).
	stepPause = 500 * time.Millisecond
	// electPause is between two tries to get a master while there is none.
	electPause = 2 * time.Second
	// rolePause is after a change of role that failed.
	rolePause = time.Second
	// leaderProof is how long the leader is believed in although another one says that it leads.
	leaderProof = 2 * time.Second
	// quietMargin is what controllers need to elect, besides the time after which a silent broker is dead.
	quietMargin = 6 * time.Second
)

// Options of a Manager. Durations are Java's keys of the same name.
type Options struct {
	Cluster, Name string
	Address       string   // of this broker, host:port
	Controllers   []string // controllerAddr
	Identity      Identity // as found on the disk; zero: none

	HeartbeatInterval            time.Duration // brokerHeartbeatInterval, 1 s
	HeartbeatTimeout             time.Duration // controllerHeartBeatTimeoutMills, 10 s
	SyncControllerMetadataPeriod time.Duration // 10 s
	SyncBrokerMetadataPeriod     time.Duration // 5 s
	// Unclean tells that the process before this one did not stop in order: its log may have lost its end.
	Unclean bool
	// Lease is how long a master serves without having heard of a controller; 0 = for ever, as Java's (own key
	// controllerLeaseMillis).
	Lease time.Duration
	// Jitter gives a random number below n: two new brokers must not ask for the same id for ever. nil = none.
	Jitter func(n int64) int64
}

// Role is what a broker is to be.
type Role struct {
	Master            bool
	Epoch             int32
	MasterID          int64
	MasterAddress     string // of the master's broker, host:port
	SyncStateSet      []int64
	SyncStateSetEpoch int32
}

// View is what somebody says of the group: an answer, or NOTIFY_BROKER_ROLE_CHANGED. Master 0: there is none.
type View struct {
	Master            int64
	Address           string
	Epoch             int32
	SyncStateSet      []int64
	SyncStateSetEpoch int32
}

// Output is what there is to do, in the order of its fields.
type Output struct {
	// Save is the identity to be written, with Saved as the answer.
	Save *Identity
	// Heartbeats are controllers to be told that the broker lives.
	Heartbeats []string
	Requests   []Request
	// Role is to be taken, with RoleDone as the answer.
	Role *Role
	// Set is the controllers' word on the SyncStateSet of the role that the broker has.
	Set *View
	// Refused tells that the controllers will not make the last wanted SyncStateSet so.
	Refused bool
	// Fence changes whether a master may take messages; nil: no change.
	Fence *bool
	// Log are lines for the operator.
	Log []Line
}

// Line is a log line.
type Line struct {
	Error bool
	Text  string
	Args  []any
}

// Manager is the core. Its methods are not safe for concurrent use; after each of them Work gives what there is to do.
type Manager struct {
	o   Options
	now time.Time
	out Output

	stage  Stage
	id     Identity
	ids    uint64 // of requests
	leader string
	proof  time.Time // when the leader showed last that it leads
	looks  map[string]uint64
	nextLook, nextBeat, nextStep,
	nextInfo time.Time

	step   uint64 // request of the stage, or GET_REPLICA_INFO, under way
	saving bool
	alter  uint64
	// unknown: whether the controllers have taken the last ALTER_SYNC_STATE_SET is to be found out, by a request after this
	// one. 0: it is known.
	unknown uint64
	doubted bool // … and was not known of one of this set epoch
	// wanted is the SyncStateSet that the master wants, nil = what it has.
	wanted    []int64
	nextAlter time.Time

	role   Role // in effect; Epoch 0: none
	target Role // to be taken; Epoch 0: none
	taken  Role // being taken
	taking bool
	next   time.Time // a failed role is tried again

	quiet  time.Time // no heartbeats until then
	heard  time.Time // a leader said last that this broker is master
	fenced bool
	said   map[string]bool // complaints, once each
}

// NewManager makes a manager; Tick begins.
func NewManager(o Options) *Manager {
	m := &Manager{o: o, id: o.Identity, looks: map[string]uint64{}, said: map[string]bool{}}
	switch {
	case m.id.ID == 0:
	case m.id.CheckCode != "":
		m.stage = StageApply
	default:
		m.stage = StageRegister
	}
	return m
}

// Stage is how far the broker is.
func (m *Manager) Stage() Stage { return m.stage }

// ID is the broker's id at the controllers, 0 = none yet.
func (m *Manager) ID() int64 {
	if m.stage < StageRegister {
		return 0
	}
	return m.id.ID
}

// Role is the role in effect; ok is false before the first.
func (m *Manager) Role() (r Role, ok bool) { return m.role, m.role.Epoch > 0 }

// Leader is the controller that is taken for the leader, "" = unknown.
func (m *Manager) Leader() string { return m.leader }

// Fenced tells that a master takes no messages: it has not heard of a controller for too long.
func (m *Manager) Fenced() bool { return m.fenced }

// Work gives what there is to do since the last call.
func (m *Manager) Work() Output {
	out := m.out
	m.out = Output{}
	return out
}

// SetControllers changes the list of controllers.
func (m *Manager) SetControllers(list []string) {
	m.o.Controllers = list
	for addr := range m.looks {
		if !slices.Contains(list, addr) {
			delete(m.looks, addr)
		}
	}
}

func (m *Manager) log(isError bool, text string, args ...any) {
	m.out.Log = append(m.out.Log, Line{Error: isError, Text: text, Args: args})
}

// once logs an error that would come again and again.
func (m *Manager) once(text string, args ...any) {
	if !m.said[text] {
		m.said[text] = true
		m.log(true, text, args...)
	}
}

// Tick says what time it is. Called every 100 ms or so; the times of the clock may jump.
func (m *Manager) Tick(now time.Time) {
	m.setNow(now)
	m.look()
	m.beat()
	m.advance()
	m.lease()
}

// setNow follows the clock. If it was set back, everything that waits is due.
func (m *Manager) setNow(now time.Time) {
	if now.Before(m.now) {
		m.nextLook, m.nextBeat, m.nextStep, m.nextInfo, m.nextAlter, m.next = now, now, now, now, now, now
		if m.quiet.After(now) {
			m.quiet = now.Add(m.o.HeartbeatTimeout + quietMargin)
		}
		m.heard, m.proof = now, now
	}
	m.now = now
}

func (m *Manager) request(to string, r Request) uint64 {
	m.ids++
	r.ID, r.To = m.ids, to
	r.Cluster, r.Name = m.o.Cluster, m.o.Name
	m.out.Requests = append(m.out.Requests, r)
	return r.ID
}

// look asks the controllers who leads.
func (m *Manager) look() {
	if m.now.Before(m.nextLook) {
		return
	}
	m.nextLook = m.now.Add(lookPause)
	if m.leader != "" {
		m.nextLook = m.now.Add(m.o.SyncControllerMetadataPeriod)
	}
	for _, addr := range m.o.Controllers {
		if m.looks[addr] == 0 {
			m.looks[addr] = m.request(addr, Request{Kind: KindMetadata})
		}
	}
}

// lookAgain forgets the leader.
func (m *Manager) lookAgain() {
	m.leader = ""
	m.nextLook = m.now
	m.nextStep = m.now.Add(lookPause)
	m.look()
}

// beat says that the broker is alive, from its registration on.
func (m *Manager) beat() {
	if m.stage <= StageRegister || m.now.Before(m.nextBeat) || m.now.Before(m.quiet) {
		return
	}
	m.nextBeat = m.now.Add(m.o.HeartbeatInterval)
	m.out.Heartbeats = slices.Clone(m.o.Controllers)
}

// lease fences a master that has not heard of a controller for too long.
func (m *Manager) lease() {
	if m.o.Lease > 0 && m.role.Master && m.target.Epoch == 0 {
		m.fence(m.now.Sub(m.heard) > m.o.Lease)
	}
}

// infoPeriod is how often the controllers are asked who is master.
func (m *Manager) infoPeriod() time.Duration {
	if m.o.Lease > 0 {
		return min(m.o.SyncBrokerMetadataPeriod, m.o.Lease/3)
	}
	return m.o.SyncBrokerMetadataPeriod
}

func (m *Manager) fence(on bool) {
	if m.fenced == on {
		return
	}
	m.fenced = on
	m.out.Fence = &on
	if on {
		m.log(true, "no controller answers: this master takes no messages until one does", "controllerLeaseMillis",
			m.o.Lease.Milliseconds())
	} else {
		m.log(false, "not fenced any more")
	}
}

// Saved is the answer to Output.Save.
func (m *Manager) Saved(now time.Time, err error) {
	m.setNow(now)
	m.saving = false
	m.nextStep = now
	switch {
	case err == nil && m.stage == StageRegister:
		m.id.CheckCode = ""
	case err != nil && m.stage == StageRegister: // the id is ours, but the file must say so before anything else
		m.stage = StageApply
	case err != nil:
		m.id, m.stage = Identity{}, StageID
	}
	if err != nil {
		m.once("broker identity not written, will be tried again", "error", err)
		m.nextStep = now.Add(stepPause)
	}
	m.advance()
}

// WantSet is the SyncStateSet that the replication of this master wants.
func (m *Manager) WantSet(now time.Time, set []int64) {
	m.setNow(now)
	set = slices.Sorted(slices.Values(set))
	m.wanted = slices.Compact(set)
	m.nextAlter = now
	m.alterSet()
}

// Notified is NOTIFY_BROKER_ROLE_CHANGED.
func (m *Manager) Notified(now time.Time, v *View) {
	m.setNow(now)
	if m.stage < StageElect || v.Master == 0 { // not registered yet: the registration will tell
		return
	}
	m.learn(v)
	m.advance()
}

// LookNow has the manager ask at once who is master: the connection to the one it knows has ended.
func (m *Manager) LookNow(now time.Time) {
	m.setNow(now)
	if m.stage == StageRunning {
		m.nextInfo = now
		m.advance()
	}
}

// RoleDone is the answer to Output.Role.
func (m *Manager) RoleDone(now time.Time, err error) {
	m.setNow(now)
	if !m.taking {
		return
	}
	m.taking = false
	switch {
	case err != nil:
		m.log(true, "role not taken, will be tried again", "epoch", m.taken.Epoch, "master", m.taken.Master, "error", err)
		if m.target.Epoch == m.taken.Epoch {
			m.next = now.Add(rolePause)
		}
	default:
		m.began()
	}
	m.advance()
}

// began notes the role that was taken.
func (m *Manager) began() {
	set := m.target.Epoch == m.taken.Epoch && m.target.SyncStateSetEpoch > m.taken.SyncStateSetEpoch
	m.role = m.taken
	m.wanted, m.unknown, m.doubted = nil, 0, false
	m.heard = m.now
	m.fence(false)
	if m.stage != StageRunning {
		m.stage = StageRunning
		m.nextInfo = m.now.Add(m.infoPeriod())
	}
	if m.target.Epoch > m.taken.Epoch {
		return // there is a newer one
	}
	if set { // it changed meanwhile
		m.role = m.target
		m.told()
	}
	if !m.role.Master && m.target.MasterAddress != m.role.MasterAddress {
		return // to be taken once more, with the other address
	}
	m.target = Role{}
}

// told has the replication know the SyncStateSet.
func (m *Manager) told() {
	m.doubted = false
	m.out.Set = &View{Master: m.role.MasterID, Epoch: m.role.Epoch, SyncStateSet: slices.Clone(m.role.SyncStateSet),
		SyncStateSetEpoch: m.role.SyncStateSetEpoch}
}

// learn takes what somebody says of the group.
func (m *Manager) learn(v *View) {
	self := v.Master == m.id.ID
	known := max(m.role.Epoch, m.target.Epoch)
	switch {
	case v.Master == 0:
	case v.Epoch > known:
		m.target = Role{Master: self, Epoch: v.Epoch, MasterID: v.Master, MasterAddress: v.Address,
			SyncStateSet: slices.Clone(v.SyncStateSet), SyncStateSetEpoch: v.SyncStateSetEpoch}
		m.next = m.now
	case v.Epoch == m.target.Epoch:
		m.target.refresh(v)
	case v.Epoch == m.role.Epoch && m.role.refresh(v):
		if m.role.Master {
			m.told()
		} else {
			m.target = m.role // its address is another one
			m.next = m.now
		}
	}
}

// refresh takes what may change within an epoch; true if it is for the broker to know.
func (r *Role) refresh(v *View) bool {
	switch {
	case v.Master != r.MasterID:
		return false
	case r.Master && v.SyncStateSetEpoch > r.SyncStateSetEpoch:
		r.SyncStateSet, r.SyncStateSetEpoch = slices.Clone(v.SyncStateSet), v.SyncStateSetEpoch
		return true
	case !r.Master && v.Address != "" && v.Address != r.MasterAddress:
		r.MasterAddress = v.Address
		return true
	}
	return false
}

// settled tells that the wanted set is what the controllers have.
func (m *Manager) settled() bool {
	return slices.Equal(slices.Sorted(slices.Values(m.role.SyncStateSet)), m.wanted)
}

// takeRole gives out the next change of role.
func (m *Manager) takeRole() {
	if m.target.Epoch == 0 || m.taking || m.now.Before(m.next) {
		return
	}
	m.taking, m.taken = true, m.target
	r := m.taken
	m.out.Role = &r
}

// advance sends what is due and not under way.
func (m *Manager) advance() {
	m.takeRole()
	m.alterSet()
	if m.leader == "" || m.step != 0 || m.saving || m.now.Before(m.nextStep) {
		return
	}
	switch m.stage {
	case StageID:
		m.step = m.request(m.leader, Request{Kind: KindNextID})
	case StageApply:
		m.step = m.request(m.leader, Request{Kind: KindApplyID, BrokerID: m.id.ID, CheckCode: m.id.CheckCode})
	case StageRegister:
		m.register()
	case StageElect:
		if m.target.Epoch == 0 && !m.taking {
			m.beat()
			m.step = m.request(m.leader, Request{Kind: KindElect, BrokerID: m.id.ID})
		}
	case StageRunning:
		if !m.now.Before(m.nextInfo) {
			m.nextInfo = m.now.Add(m.infoPeriod())
			m.step = m.request(m.leader, Request{Kind: KindReplicaInfo})
		}
	}
}

func (m *Manager) register() {
	m.step = m.request(m.leader, Request{Kind: KindRegister, BrokerID: m.id.ID, Address: m.o.Address})
}

// alterSet asks for the wanted set.
func (m *Manager) alterSet() {
	switch {
	case m.wanted == nil || m.alter != 0 || m.unknown != 0 || m.leader == "" || m.now.Before(m.nextAlter) || !m.role.Master ||
		m.target.Epoch != 0:
	case m.settled():
		m.wanted = nil
	default:
		m.alter = m.request(m.leader, Request{Kind: KindAlterSet, BrokerID: m.id.ID, MasterEpoch: m.role.Epoch,
			SyncStateSet: slices.Clone(m.wanted), SyncStateSetEpoch: m.role.SyncStateSetEpoch})
	}
}

// Answer is what a request brought: a from ReadAnswer, or with Err. One of a request that is over changes nothing.
func (m *Manager) Answer(now time.Time, id uint64, a *Answer) {
	m.setNow(now)
	switch {
	case id == m.step:
		m.step = 0
		if m.fromLeader(a) {
			m.stepped(id, a)
		}
	case id == m.alter:
		m.alter = 0
		if m.fromLeader(a) {
			m.altered(a)
		} else {
			m.findOut()
		}
	default:
		for addr, look := range m.looks {
			if look == id {
				delete(m.looks, addr)
				m.metadata(addr, a)
			}
		}
	}
	m.advance()
}

// fromLeader tells whether the leader answered.
func (m *Manager) fromLeader(a *Answer) bool {
	if a.Err != nil || a.Code == codec.RespControllerNotLeader {
		m.lookAgain()
		return false
	}
	if a.Code == codec.RespSystemBusy || a.Code == codec.RespSystemError {
		m.nextStep = m.now.Add(stepPause)
		return false
	}
	m.proof = m.now
	return true
}

// metadata takes the answer to a look.
func (m *Manager) metadata(addr string, a *Answer) {
	if a.Err != nil || a.Code != codec.RespSuccess {
		return
	}
	leader := a.Leader
	if a.IsLeader && leader != m.leader {
		leader = addr
	}
	switch {
	case leader == "":
		return
	case !a.IsLeader && (m.leader != "" || slices.Contains(m.o.Controllers, leader)):
		return // it is asked itself
	case leader == m.leader:
		m.proof = m.now
		return
	case m.leader != "" && m.now.Sub(m.proof) < leaderProof:
		return // one of the two is late; the next look or request will tell
	}
	m.leader, m.proof = leader, m.now
	m.nextStep, m.nextLook = m.now, m.now.Add(m.o.SyncControllerMetadataPeriod)
	m.nextInfo, m.nextAlter = m.now, m.now // what it knows may be news
	m.log(false, "leading controller", "remote", leader)
}
