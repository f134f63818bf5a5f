package body

import (
	"encoding/binary"
	"fmt"
	"math"

	"skylark/codec"
)

// HARuntimeInfo answers GET_BROKER_HA_STATUS (907).
type HARuntimeInfo struct {
	HAClientRuntimeInfo      *HAClientRuntimeInfo       `json:"haClientRuntimeInfo"` // of a slave
	HAConnectionInfo         []*HAConnectionRuntimeInfo `json:"haConnectionInfo"`    // of a master
	InSyncSlaveNums          int32                      `json:"inSyncSlaveNums"`
	Master                   bool                       `json:"master"`
	MasterCommitLogMaxOffset codec.PhyOffset            `json:"masterCommitLogMaxOffset"`
}

// HAConnectionRuntimeInfo is a slave as its master sees it.
type HAConnectionRuntimeInfo struct {
	Addr                    string          `json:"addr,omitnull"`
	Diff                    int64           `json:"diff"` // bytes behind
	InSync                  bool            `json:"inSync"`
	SlaveAckOffset          codec.PhyOffset `json:"slaveAckOffset"`
	TransferFromWhere       codec.PhyOffset `json:"transferFromWhere"`
	TransferredByteInSecond int64           `json:"transferredByteInSecond"`
}

// HAClientRuntimeInfo is a slave as it sees itself. Timestamps are milliseconds.
type HAClientRuntimeInfo struct {
	Activated               bool            `json:"activated"`
	LastReadTimestamp       int64           `json:"lastReadTimestamp"`
	LastWriteTimestamp      int64           `json:"lastWriteTimestamp"`
	MasterAddr              string          `json:"masterAddr,omitnull"`
	MasterFlushOffset       codec.PhyOffset `json:"masterFlushOffset"`
	MaxOffset               codec.PhyOffset `json:"maxOffset"`
	TransferredByteInSecond int64           `json:"transferredByteInSecond"`
}

// SyncStateSet is the broker ids that have everything confirmed, with the epoch of the set.
type SyncStateSet struct {
	SyncStateSet      []int64 `json:"syncStateSet"`
	SyncStateSetEpoch int32   `json:"syncStateSetEpoch"`
}

// ElectMasterResponseBody answers CONTROLLER_ELECT_MASTER (1002).
type ElectMasterResponseBody struct {
	BrokerMemberGroup *BrokerMemberGroup `json:"brokerMemberGroup"`
	SyncStateSet      []int64            `json:"syncStateSet,omitnull"`
}

// BrokerReplicasInfo answers CONTROLLER_GET_SYNC_STATE_DATA (1006); by broker name.
type BrokerReplicasInfo struct {
	ReplicasInfoTable map[string]*ReplicasInfo `json:"replicasInfoTable"`
}

// ReplicasInfo is the replicas of one broker name.
type ReplicasInfo struct {
	InSyncReplicas    []*ReplicaIdentity `json:"inSyncReplicas"`
	MasterAddress     string             `json:"masterAddress,omitnull"`
	MasterBrokerID    *int64             `json:"masterBrokerId"`
	MasterEpoch       *int32             `json:"masterEpoch"`
	NotInSyncReplicas []*ReplicaIdentity `json:"notInSyncReplicas"`
	SyncStateSetEpoch *int32             `json:"syncStateSetEpoch"`
}

// ReplicaIdentity is one replica.
type ReplicaIdentity struct {
	Alive         *bool  `json:"alive"`
	BrokerAddress string `json:"brokerAddress,omitnull"`
	BrokerID      int64  `json:"brokerId"`
	BrokerName    string `json:"brokerName,omitnull"`
}

// EpochEntry is the stretch of the CommitLog that one master wrote.
type EpochEntry struct {
	EndOffset   codec.PhyOffset `json:"endOffset"` // exclusive; the largest int64 while it is open
	Epoch       int32           `json:"epoch"`
	StartOffset codec.PhyOffset `json:"startOffset"`
}

// SetDefaults leaves the end open.
func (e *EpochEntry) SetDefaults() { e.EndOffset = math.MaxInt64 }

// EpochEntryCache answers GET_BROKER_EPOCH_CACHE (1007).
type EpochEntryCache struct {
	BrokerID    int64           `json:"brokerId"`
	BrokerName  string          `json:"brokerName,omitnull"`
	ClusterName string          `json:"clusterName,omitnull"`
	EpochList   []*EpochEntry   `json:"epochList"`
	MaxOffset   codec.PhyOffset `json:"maxOffset"`
}

// RoleChangeNotifyEntry is what a controller keeps to tell brokers about a new master.
type RoleChangeNotifyEntry struct {
	BrokerMemberGroup *BrokerMemberGroup `json:"brokerMemberGroup"`
	MasterAddress     string             `json:"masterAddress,omitnull"`
	MasterBrokerID    *int64             `json:"masterBrokerId"`
	MasterEpoch       int32              `json:"masterEpoch"`
	SyncStateSet      []int64            `json:"syncStateSet,omitnull"`
	SyncStateSetEpoch int32              `json:"syncStateSetEpoch"`
}

// timerCheckpointBytes is a TimerCheckpoint with and without the data version that 5.x appended.
const (
	timerCheckpointBytes    = 56
	timerCheckpointBytesOld = 32
)

// TimerCheckpoint answers GET_TIMER_CHECK_POINT (60): seven big-endian int64, of which the last three may be
// missing.
type TimerCheckpoint struct {
	LastReadTimeMillis     int64
	LastTimerLogFlushPos   int64
	LastTimerQueueOffset   codec.QueueOffset
	MasterTimerQueueOffset codec.QueueOffset
	DataVersion            DataVersion
}

// Append appends the 56 bytes.
func (c *TimerCheckpoint) Append(dst []byte) []byte {
	for _, v := range [...]int64{c.LastReadTimeMillis, c.LastTimerLogFlushPos, int64(c.LastTimerQueueOffset),
		int64(c.MasterTimerQueueOffset), c.DataVersion.StateVersion, c.DataVersion.Timestamp,
		c.DataVersion.Counter} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// ParseTimerCheckpoint reads 56 bytes, or 32 of an older sender.
func ParseTimerCheckpoint(b []byte) (c TimerCheckpoint, err error) {
	if len(b) < timerCheckpointBytesOld {
		return c, fmt.Errorf("body: timer checkpoint of %d bytes, at least %d needed", len(b),
			timerCheckpointBytesOld)
	}
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
	c = TimerCheckpoint{LastReadTimeMillis: at(0), LastTimerLogFlushPos: at(1),
		LastTimerQueueOffset: codec.QueueOffset(at(2)), MasterTimerQueueOffset: codec.QueueOffset(at(3))}
	if len(b) >= timerCheckpointBytes {
		c.DataVersion = DataVersion{StateVersion: at(4), Timestamp: at(5), Counter: at(6)}
	}
	return c, nil
}
