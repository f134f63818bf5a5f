package replicas

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind tells what an event asks for.
type Kind uint8

// The kinds of events. The numbers are in the log: they never change.
const (
	// KindAlterSyncStateSet: master BrokerID with MasterEpoch wants SyncStateSet instead of the set with SetEpoch.
	KindAlterSyncStateSet Kind = 1
	// KindApplyBrokerID: a broker wants BrokerID and shows CheckCode ("address;millis").
	KindApplyBrokerID Kind = 2
	// KindElectMaster: BrokerID asks for an election, or the controller itself (BrokerID NoBroker).
	KindElectMaster Kind = 3
	// KindCleanBroker: an operator removes IDs of a broker name, or all of it if IDs is empty.
	KindCleanBroker Kind = 4
	// KindRegisterBroker: BrokerID tells its Address and asks for master and SyncStateSet.
	KindRegisterBroker Kind = 5
)

// NoBroker as Event.BrokerID of an election: no broker asks for it, the controller does. Java's -1.
const NoBroker int64 = -1

// Limits of what an event and the state hold.
const (
	// MaxReplicas bounds the replicas of all broker names. With all texts at MaxText a snapshot has about 12 MB, which
	// fits into one frame.
	MaxReplicas = 16384
	// MaxText bounds cluster name, broker name, address and check code, in bytes.
	MaxText = 255
	// MaxIDs bounds the ids in one event, and the replicas of one broker name.
	MaxIDs = 1024
)

// Live is what the controller that proposed an event knew of a living replica from its heartbeats.
type Live struct {
	ID        int64 `json:"id"`
	Epoch     int32 `json:"epoch"`     // the last in its epoch file, -1 unknown
	MaxOffset int64 `json:"maxOffset"` // of its CommitLog, -1 unknown
	Priority  int32 `json:"priority"`  // brokerElectionPriority, the smaller the better
}

// Event is one entry of the controllers' log. Its JSON is what is written, with the names below; fields that are
// not of its Kind are left out.
type Event struct {
	Kind    Kind   `json:"kind"`
	Cluster string `json:"cluster,omitempty"`
	Broker  string `json:"broker"`
	// BrokerID is the one who asks; ids begin with 1.
	BrokerID int64 `json:"brokerId,omitempty"`
	// MasterEpoch: of an alteration, the epoch its master was elected with; of an election by the controller, the epoch
	// it saw: another one makes the election void.
	MasterEpoch  int32   `json:"masterEpoch,omitempty"`
	SetEpoch     int32   `json:"setEpoch,omitempty"`
	SyncStateSet []int64 `json:"syncStateSet,omitempty"`
	// Designate has the election take BrokerID or nobody.
	Designate bool `json:"designate,omitempty"`
	// Unclean lets the election take a replica outside of the SyncStateSet if nobody in it lives
	// (enableElectUncleanMaster of the controller that proposed it).
	Unclean   bool    `json:"unclean,omitempty"`
	Address   string  `json:"address,omitempty"`
	CheckCode string  `json:"checkCode,omitempty"`
	IDs       []int64 `json:"ids,omitempty"`
	// CleanLiving removes also what is alive.
	CleanLiving bool `json:"cleanLiving,omitempty"`
	// Live are the living replicas of the broker name, Unknown those the proposing controller, just started, cannot
	// tell about yet: nobody is elected in the place of an unknown master, and no unknown replica is elected.
	Live    []Live  `json:"live,omitempty"`
	Unknown []int64 `json:"unknown,omitempty"`
}

// Encode gives the bytes for the log.
func (e *Event) Encode() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic("BUG: replicas: event does not encode: " + err.Error()) // plain fields only
	}
	return b
}

// DecodeEvent reads the bytes of the log.
func DecodeEvent(b []byte) (*Event, error) {
	e := new(Event)
	if err := json.Unmarshal(b, e); err != nil {
		return nil, fmt.Errorf("replicas: event: %w", err)
	}
	return e, nil
}

// Validate refuses, before anything is written to the log, an event that is too large or lacks what its kind needs.
func (e *Event) Validate() error {
	for _, f := range []struct{ name, value string }{
		{"clusterName", e.Cluster}, {"brokerName", e.Broker}, {"brokerAddress", e.Address}, {"registerCheckCode", e.CheckCode},
	} {
		if err := checkText(f.name, f.value); err != nil {
			return err
		}
	}
	if e.Broker == "" {
		return fmt.Errorf("brokerName is missing")
	}
	if n := max(len(e.SyncStateSet), len(e.IDs)); n > MaxIDs {
		return fmt.Errorf("%d broker ids, at most %d", n, MaxIDs)
	}
	switch e.Kind {
	case KindApplyBrokerID:
		if e.CheckCode == "" {
			return fmt.Errorf("registerCheckCode is missing")
		}
	case KindRegisterBroker:
		if e.Address == "" {
			return fmt.Errorf("brokerAddress is missing")
		}
	case KindAlterSyncStateSet, KindElectMaster, KindCleanBroker:
	default:
		return fmt.Errorf("event kind %d is not known", e.Kind)
	}
	return nil
}

// checkText keeps out what JSON would write in another way or at many times the length.
func checkText(name, value string) error {
	switch {
	case len(value) > MaxText:
		return fmt.Errorf("%s has %d bytes, at most %d", name, len(value), MaxText)
	case !utf8.ValidString(value):
		return fmt.Errorf("%s is not UTF-8", name)
	case strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("%s has control characters", name)
	}
	return nil
}

func (e *Event) live(id int64) *Live {
	for i := range e.Live {
		if e.Live[i].ID == id {
			return &e.Live[i]
		}
	}
	return nil
}
