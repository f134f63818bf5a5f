package codec

// NotifyMinBrokerIDChangeRequestHeader is for NOTIFY_MIN_BROKER_ID_CHANGE (905), name server to broker,
// oneway.
type NotifyMinBrokerIDChangeRequestHeader struct {
	MinBrokerID       *int64 `ext:"minBrokerId"`
	BrokerName        string `ext:"brokerName"`
	MinBrokerAddr     string `ext:"minBrokerAddr"`
	OfflineBrokerAddr string `ext:"offlineBrokerAddr"`
	HABrokerAddr      string `ext:"haBrokerAddr"`
}

// ExchangeHAInfoHeader is request and answer of EXCHANGE_BROKER_HA_INFO (906); a request without any field
// asks.
type ExchangeHAInfoHeader struct {
	MasterHAAddress   string     `ext:"masterHaAddress"`
	MasterFlushOffset *PhyOffset `ext:"masterFlushOffset"`
	MasterAddress     string     `ext:"masterAddress"`
}

// ResetMasterFlushOffsetRequestHeader is for RESET_MASTER_FLUSH_OFFSET (908).
type ResetMasterFlushOffsetRequestHeader struct {
	MasterFlushOffset PhyOffset `ext:"masterFlushOffset,required"`
}

// AddBrokerRequestHeader is for ADD_BROKER (902), to a broker container.
type AddBrokerRequestHeader struct {
	ConfigPath string `ext:"configPath"`
}

// RemoveBrokerRequestHeader is for REMOVE_BROKER (903), to a broker container.
type RemoveBrokerRequestHeader struct {
	BrokerName        string `ext:"brokerName,required"`
	BrokerClusterName string `ext:"brokerClusterName,required"`
	BrokerID          int64  `ext:"brokerId,required"`
}

// NotifyBrokerRoleChangedRequestHeader is for NOTIFY_BROKER_ROLE_CHANGED (1008), controller to broker,
// oneway; the body is the SyncStateSet.
type NotifyBrokerRoleChangedRequestHeader struct {
	MasterAddress     string `ext:"masterAddress"`
	MasterEpoch       *int32 `ext:"masterEpoch"`
	SyncStateSetEpoch *int32 `ext:"syncStateSetEpoch"`
	MasterBrokerID    *int64 `ext:"masterBrokerId"`
}
