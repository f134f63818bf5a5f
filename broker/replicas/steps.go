package replicas

import (
	"fmt"
	"time"

	"skylark/codec"
)

// stepped takes the leader's answer to the request of the stage.
func (m *Manager) stepped(id uint64, a *Answer) {
	m.nextStep = m.now
	switch a.Kind {
	case KindNextID:
		m.chosen(a)
	case KindApplyID:
		m.applied(a)
	case KindRegister:
		m.registered(a)
	case KindElect:
		m.elected(a)
	case KindReplicaInfo:
		m.informed(id, a)
	}
}

// failed is for answers that nobody expects.
func (m *Manager) failed(a *Answer) {
	m.nextStep = m.now.Add(stepPause)
	m.once("controller refuses "+a.Kind.String(), "code", a.Code, "remark", a.Remark, "controller", m.leader)
}

// chosen takes an id to apply for.
func (m *Manager) chosen(a *Answer) {
	if a.Code != codec.RespSuccess || a.BrokerID < 1 {
		m.failed(a)
		return
	}
	m.id = Identity{Cluster: m.o.Cluster, Name: m.o.Name, ID: a.BrokerID,
		CheckCode: fmt.Sprintf("%s;%d", m.o.Address, m.now.UnixMilli())}
	m.stage = StageApply
	m.save()
}

// save has the identity written; the next step waits for it.
func (m *Manager) save() {
	id := m.id
	if m.stage == StageRegister {
		id.CheckCode = ""
	}
	m.out.Save, m.saving = &id, true
}

// applied takes the decision on the id.
func (m *Manager) applied(a *Answer) {
	switch a.Code {
	case codec.RespSuccess:
		m.stage = StageRegister
		m.save()
		m.log(false, "broker id", "id", m.id.ID, "name", m.o.Name)
	case codec.RespControllerBrokerIDInvalid: // somebody else was faster
		m.id, m.stage = Identity{}, StageID
		m.nextStep = m.now.Add(stepPause)
		if m.o.Jitter != nil {
			m.nextStep = m.now.Add(time.Duration(m.o.Jitter(int64(2 * stepPause))))
		}
	default:
		m.failed(a)
	}
}

// registered takes the answer that may name the master.
func (m *Manager) registered(a *Answer) {
	if a.Code != codec.RespSuccess {
		m.failed(a)
		if a.Code == codec.RespControllerBrokerNeedToBeRegistered {
			m.nextStep = m.now.Add(m.o.SyncBrokerMetadataPeriod)
			m.once("the controllers do not know this broker's id: they have lost their data, or it was removed by "+
				"cleanBrokerMetadata. To register anew, stop the broker and remove its file brokerIdentity", "id", m.id.ID)
		}
		return
	}
	if m.stage > StageRegister {
		return // the controllers had forgotten the address
	}
	v := &a.View
	if v.Master == m.id.ID && m.o.Unclean && len(v.SyncStateSet) > 1 && m.waitForOthers() {
		return
	}
	m.quiet = time.Time{}
	m.stage = StageElect
	m.nextBeat = m.now
	m.beat()
	m.learn(v)
}

// waitForOthers keeps silent for as long as another replica may be elected in this broker's place.
func (m *Manager) waitForOthers() bool {
	if m.quiet.IsZero() {
		m.quiet = m.now.Add(m.o.HeartbeatTimeout + quietMargin)
		m.log(false, "this broker was killed as master: others of the SyncStateSet may have more of the log and go first",
			"limit", m.quiet.Sub(m.now).String())
	}
	m.nextStep = m.now.Add(stepPause)
	return m.now.Before(m.quiet)
}

// elected takes the outcome of an election.
func (m *Manager) elected(a *Answer) {
	switch {
	case (a.Code == codec.RespSuccess || a.Code == codec.RespControllerMasterStillExist) && a.View.Master != 0:
		m.learn(&a.View)
		if m.stage == StageElect && m.target.Epoch == 0 {
			m.nextStep = m.now.Add(stepPause)
		}
	case m.stage == StageElect:
		m.nextStep = m.now.Add(electPause)
		m.once("there is no master, and this broker may not become it: it is not in the SyncStateSet, or not heard of yet",
			"code", a.Code, "remark", a.Remark)
		if a.Code == codec.RespControllerBrokerNeedToBeRegistered {
			m.stage = StageRegister
		}
	}
}

// informed takes the answer to GET_REPLICA_INFO.
func (m *Manager) informed(id uint64, a *Answer) {
	switch v := &a.View; a.Code {
	case codec.RespSuccess:
		m.learn(v)
		if v.Master == m.id.ID && v.Epoch == m.role.Epoch {
			m.heard = m.now
			m.found(id)
		}
		if v.Master == 0 && v.Epoch > max(m.role.Epoch, m.target.Epoch) {
			m.step = m.request(m.leader, Request{Kind: KindElect, BrokerID: m.id.ID})
		}
	case codec.RespControllerBrokerMetadataNotExist:
		m.once("the controllers do not know this broker name (any more)", "name", m.o.Name)
		m.register()
	default:
		m.failed(a)
	}
}

// altered takes the answer to ALTER_SYNC_STATE_SET.
func (m *Manager) altered(a *Answer) {
	switch a.Code {
	case codec.RespSuccess:
		if a.MasterEpoch == m.role.Epoch && m.role.Master {
			m.heard = m.now
			m.learn(&View{Master: m.role.MasterID, Epoch: m.role.Epoch, SyncStateSet: a.View.SyncStateSet,
				SyncStateSetEpoch: a.View.SyncStateSetEpoch})
		}
	case codec.RespControllerBrokerNotAlive, codec.RespControllerInvalidReplicas:
		m.wanted = nil // the replication will want it again if it still does
		m.out.Refused = !m.doubted
	default: // another master, another epoch, another set: what we know is old
		m.findOut()
	}
}

// findOut asks what the controllers have.
func (m *Manager) findOut() {
	m.unknown, m.doubted = max(m.ids, 1), true
	m.nextInfo = m.now
}

// found is told that a request brought what the controllers have.
func (m *Manager) found(id uint64) {
	if m.unknown == 0 || id <= m.unknown {
		return
	}
	m.unknown = 0
	m.nextAlter = m.now.Add(stepPause)
}
