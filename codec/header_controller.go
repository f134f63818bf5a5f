package codec

// AlterSyncStateSetRequestHeader is for CONTROLLER_ALTER_SYNC_STATE_SET (1001); the body is the SyncStateSet.
type AlterSyncStateSetRequestHeader struct {
	BrokerName     string `ext:"brokerName"`
	MasterBrokerID *int64 `ext:"masterBrokerId"`
	MasterEpoch    *int32 `ext:"masterEpoch"`
	InvokeTime     int64  `ext:"invokeTime"` // milliseconds
}

// AlterSyncStateSetResponseHeader answers CONTROLLER_ALTER_SYNC_STATE_SET.
type AlterSyncStateSetResponseHeader struct {
	NewSyncStateSetEpoch int32 `ext:"newSyncStateSetEpoch"`
}

// ElectMasterRequestHeader is for CONTROLLER_ELECT_MASTER (1002).
type ElectMasterRequestHeader struct {
	ClusterName    string `ext:"clusterName"`
	BrokerName     string `ext:"brokerName"`
	BrokerID       int64  `ext:"brokerId,default=-1"`
	DesignateElect bool   `ext:"designateElect"`
	InvokeTime     int64  `ext:"invokeTime"` // milliseconds
}

// ElectMasterResponseHeader answers CONTROLLER_ELECT_MASTER.
type ElectMasterResponseHeader struct {
	MasterBrokerID    *int64 `ext:"masterBrokerId"`
	MasterAddress     string `ext:"masterAddress"`
	MasterEpoch       *int32 `ext:"masterEpoch"`
	SyncStateSetEpoch *int32 `ext:"syncStateSetEpoch"`
}

// RegisterBrokerToControllerRequestHeader is for CONTROLLER_REGISTER_BROKER (1003).
type RegisterBrokerToControllerRequestHeader struct {
	ClusterName   string `ext:"clusterName"`
	BrokerName    string `ext:"brokerName"`
	BrokerID      *int64 `ext:"brokerId"`
	BrokerAddress string `ext:"brokerAddress"`
	InvokeTime    int64  `ext:"invokeTime"` // milliseconds
}

// RegisterBrokerToControllerResponseHeader answers CONTROLLER_REGISTER_BROKER; the master is absent when
// there is none.
type RegisterBrokerToControllerResponseHeader struct {
	ClusterName       string `ext:"clusterName"`
	BrokerName        string `ext:"brokerName"`
	MasterBrokerID    *int64 `ext:"masterBrokerId"`
	MasterAddress     string `ext:"masterAddress"`
	MasterEpoch       *int32 `ext:"masterEpoch"`
	SyncStateSetEpoch *int32 `ext:"syncStateSetEpoch"`
}

// GetReplicaInfoRequestHeader is for CONTROLLER_GET_REPLICA_INFO (1004).
type GetReplicaInfoRequestHeader struct {
	BrokerName string `ext:"brokerName"`
}

// GetReplicaInfoResponseHeader answers CONTROLLER_GET_REPLICA_INFO.
type GetReplicaInfoResponseHeader struct {
	MasterBrokerID *int64 `ext:"masterBrokerId"`
	MasterAddress  string `ext:"masterAddress"`
	MasterEpoch    *int32 `ext:"masterEpoch"`
}

// GetMetadataResponseHeader answers CONTROLLER_GET_METADATA_INFO (1005).
type GetMetadataResponseHeader struct {
	Group                   string `ext:"group"`
	ControllerLeaderID      string `ext:"controllerLeaderId"`
	ControllerLeaderAddress string `ext:"controllerLeaderAddress"`
	IsLeader                bool   `ext:"isLeader"`
	Peers                   string `ext:"peers"` // "id:addr;id:addr"
}

// CleanBrokerDataRequestHeader is for CLEAN_BROKER_DATA (1011).
type CleanBrokerDataRequestHeader struct {
	ClusterName                string `ext:"clusterName"`
	BrokerName                 string `ext:"brokerName,required"`
	BrokerControllerIDsToClean string `ext:"brokerControllerIdsToClean"` // "1;2"
	IsCleanLivingBroker        bool   `ext:"isCleanLivingBroker"`
	InvokeTime                 int64  `ext:"invokeTime"` // milliseconds
}

// GetNextBrokerIDRequestHeader is for CONTROLLER_GET_NEXT_BROKER_ID (1012).
type GetNextBrokerIDRequestHeader struct {
	ClusterName string `ext:"clusterName"`
	BrokerName  string `ext:"brokerName"`
}

// GetNextBrokerIDResponseHeader answers CONTROLLER_GET_NEXT_BROKER_ID; the first id is 1.
type GetNextBrokerIDResponseHeader struct {
	ClusterName  string `ext:"clusterName"`
	BrokerName   string `ext:"brokerName"`
	NextBrokerID *int64 `ext:"nextBrokerId"`
}

// ApplyBrokerIDRequestHeader is for CONTROLLER_APPLY_BROKER_ID (1013).
type ApplyBrokerIDRequestHeader struct {
	ClusterName       string `ext:"clusterName"`
	BrokerName        string `ext:"brokerName"`
	AppliedBrokerID   *int64 `ext:"appliedBrokerId"`
	RegisterCheckCode string `ext:"registerCheckCode"`
}

// ApplyBrokerIDResponseHeader answers CONTROLLER_APPLY_BROKER_ID.
type ApplyBrokerIDResponseHeader struct {
	ClusterName string `ext:"clusterName"`
	BrokerName  string `ext:"brokerName"`
}
