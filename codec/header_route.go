package codec

// KVConfigRequestHeader is for GET_KV_CONFIG (101) and DELETE_KV_CONFIG (102).
type KVConfigRequestHeader struct {
	Namespace string `ext:"namespace,required"`
	Key       string `ext:"key,required"`
}

// PutKVConfigRequestHeader is for PUT_KV_CONFIG (100).
type PutKVConfigRequestHeader struct {
	Namespace string `ext:"namespace,required"`
	Key       string `ext:"key,required"`
	Value     string `ext:"value,required"`
}

// GetKVConfigResponseHeader answers GET_KV_CONFIG.
type GetKVConfigResponseHeader struct {
	Value string `ext:"value"`
}

// GetKVListByNamespaceRequestHeader is for GET_KVLIST_BY_NAMESPACE (219).
type GetKVListByNamespaceRequestHeader struct {
	Namespace string `ext:"namespace,required"`
}

// RegisterBrokerRequestHeader is for REGISTER_BROKER (103). The extField ExtZoneName may go with it.
type RegisterBrokerRequestHeader struct {
	BrokerName             string `ext:"brokerName,required"`
	BrokerAddr             string `ext:"brokerAddr,required"`
	ClusterName            string `ext:"clusterName,required"`
	HAServerAddr           string `ext:"haServerAddr,required"`
	BrokerID               int64  `ext:"brokerId,required"`
	HeartbeatTimeoutMillis *int64 `ext:"heartbeatTimeoutMillis"`
	EnableActingMaster     *bool  `ext:"enableActingMaster"` // nil: a broker older than 5.0
	Compressed             bool   `ext:"compressed"`
	BodyCRC32              int32  `ext:"bodyCrc32"` // 0: not to be checked
}

// RegisterBrokerResponseHeader answers REGISTER_BROKER; both are those of the master, for a slave.
type RegisterBrokerResponseHeader struct {
	HAServerAddr string `ext:"haServerAddr"`
	MasterAddr   string `ext:"masterAddr"`
}

// UnregisterBrokerRequestHeader is for UNREGISTER_BROKER (104).
type UnregisterBrokerRequestHeader struct {
	BrokerName  string `ext:"brokerName,required"`
	BrokerAddr  string `ext:"brokerAddr,required"`
	ClusterName string `ext:"clusterName,required"`
	BrokerID    int64  `ext:"brokerId,required"`
}

// QueryDataVersionRequestHeader is for QUERY_DATA_VERSION (322).
type QueryDataVersionRequestHeader struct {
	BrokerName  string `ext:"brokerName,required"`
	BrokerAddr  string `ext:"brokerAddr,required"`
	ClusterName string `ext:"clusterName,required"`
	BrokerID    int64  `ext:"brokerId,required"`
}

// QueryDataVersionResponseHeader answers QUERY_DATA_VERSION.
type QueryDataVersionResponseHeader struct {
	Changed bool `ext:"changed,required"`
}

// GetRouteInfoRequestHeader is for GET_ROUTEINFO_BY_TOPIC (105). ExtZoneMode and ExtZoneName may go with it.
type GetRouteInfoRequestHeader struct {
	TopicHeader
	Topic                  string `ext:"topic,required"`
	AcceptStandardJSONOnly *bool  `ext:"acceptStandardJsonOnly"`
}

// BrokerNameRequestHeader is for WIPE_WRITE_PERM_OF_BROKER (205) and ADD_WRITE_PERM_OF_BROKER (327).
type BrokerNameRequestHeader struct {
	BrokerName string `ext:"brokerName,required"`
}

// WipeWritePermOfBrokerResponseHeader answers WIPE_WRITE_PERM_OF_BROKER.
type WipeWritePermOfBrokerResponseHeader struct {
	WipeTopicCount int32 `ext:"wipeTopicCount,required"`
}

// AddWritePermOfBrokerResponseHeader answers ADD_WRITE_PERM_OF_BROKER.
type AddWritePermOfBrokerResponseHeader struct {
	AddTopicCount int32 `ext:"addTopicCount,required"`
}

// DeleteTopicInNamesrvRequestHeader is for DELETE_TOPIC_IN_NAMESRV (216).
type DeleteTopicInNamesrvRequestHeader struct {
	TopicHeader
	Topic       string `ext:"topic,required"`
	ClusterName string `ext:"clusterName"`
}

// GetTopicsByClusterRequestHeader is for GET_TOPICS_BY_CLUSTER (224).
type GetTopicsByClusterRequestHeader struct {
	Cluster string `ext:"cluster,required"`
}

// BrokerHeartbeatRequestHeader is for BROKER_HEARTBEAT (904), to name servers and controllers.
type BrokerHeartbeatRequestHeader struct {
	ClusterName            string     `ext:"clusterName,required"`
	BrokerAddr             string     `ext:"brokerAddr,required"`
	BrokerName             string     `ext:"brokerName,required"`
	BrokerID               *int64     `ext:"brokerId"`
	Epoch                  *int32     `ext:"epoch"`
	MaxOffset              *PhyOffset `ext:"maxOffset"`
	ConfirmOffset          *PhyOffset `ext:"confirmOffset"`
	HeartbeatTimeoutMillis *int64     `ext:"heartbeatTimeoutMills"` // sic
	ElectionPriority       *int32     `ext:"electionPriority"`
}

// GetBrokerMemberGroupRequestHeader is for GET_BROKER_MEMBER_GROUP (901).
type GetBrokerMemberGroupRequestHeader struct {
	ClusterName string `ext:"clusterName,required"`
	BrokerName  string `ext:"brokerName,required"`
}
