package codec

// CreateTopicRequestHeader is for UPDATE_AND_CREATE_TOPIC (17) and UPDATE_AND_CREATE_STATIC_TOPIC (513).
type CreateTopicRequestHeader struct {
	TopicHeader
	Topic           string `ext:"topic,required"`
	DefaultTopic    string `ext:"defaultTopic,required"`
	ReadQueueNums   int32  `ext:"readQueueNums,required"`
	WriteQueueNums  int32  `ext:"writeQueueNums,required"`
	Perm            int32  `ext:"perm,required"`
	TopicFilterType string `ext:"topicFilterType,required"` // SINGLE_TAG or MULTI_TAG
	TopicSysFlag    *int32 `ext:"topicSysFlag"`
	Order           bool   `ext:"order"`
	Attributes      string `ext:"attributes"` // "+key=value,-key"
	Force           bool   `ext:"force"`
}

// GetAllTopicConfigRequestHeader is for GET_ALL_TOPIC_CONFIG (21); without fields everything is asked for.
type GetAllTopicConfigRequestHeader struct {
	TopicSeq    *int32 `ext:"topicSeq"`    // where to continue
	DataVersion string `ext:"dataVersion"` // JSON; the answer starts over when it differs
	MaxTopicNum *int32 `ext:"maxTopicNum"`
}

// GetAllTopicConfigResponseHeader answers a GET_ALL_TOPIC_CONFIG that has fields.
type GetAllTopicConfigResponseHeader struct {
	TotalTopicNum int32 `ext:"totalTopicNum,required"`
}

// GetAllSubscriptionGroupRequestHeader is for GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201).
type GetAllSubscriptionGroupRequestHeader struct {
	GroupSeq    *int32 `ext:"groupSeq"`
	DataVersion string `ext:"dataVersion"`
	MaxGroupNum *int32 `ext:"maxGroupNum"`
}

// GetAllSubscriptionGroupResponseHeader answers a GET_ALL_SUBSCRIPTIONGROUP_CONFIG that has fields.
type GetAllSubscriptionGroupResponseHeader struct {
	TotalGroupNum int32 `ext:"totalGroupNum,required"`
}

// GroupRequestHeader is for GET_SUBSCRIPTIONGROUP_CONFIG (352) and QUERY_TOPICS_BY_CONSUMER (343).
type GroupRequestHeader struct {
	RPCHeader
	Group string `ext:"group,required"`
}

// UpdateGroupForbiddenRequestHeader is for UPDATE_AND_GET_GROUP_FORBIDDEN (353).
type UpdateGroupForbiddenRequestHeader struct {
	TopicHeader
	Group    string `ext:"group,required"`
	Topic    string `ext:"topic,required"`
	Readable *bool  `ext:"readable"` // nil: only ask
}

// DeleteSubscriptionGroupRequestHeader is for DELETE_SUBSCRIPTIONGROUP (207).
type DeleteSubscriptionGroupRequestHeader struct {
	RPCHeader
	GroupName    string `ext:"groupName,required"`
	CleanOffset  bool   `ext:"cleanOffset"`
	RemoveOffset *bool  `ext:"removeOffset"` // what 4.9 calls it
}

// RemovesOffsets tells whether the group's offsets go too, under either name.
func (h *DeleteSubscriptionGroupRequestHeader) RemovesOffsets() bool {
	return h.CleanOffset || h.RemoveOffset != nil && *h.RemoveOffset
}

// QuerySubscriptionByConsumerRequestHeader is for QUERY_SUBSCRIPTION_BY_CONSUMER (345).
type QuerySubscriptionByConsumerRequestHeader struct {
	TopicHeader
	Group string `ext:"group,required"`
	Topic string `ext:"topic"`
}

// CloneGroupOffsetRequestHeader is for CLONE_GROUP_OFFSET (314).
type CloneGroupOffsetRequestHeader struct {
	RPCHeader
	SrcGroup  string `ext:"srcGroup,required"`
	DestGroup string `ext:"destGroup,required"`
	Topic     string `ext:"topic"`
	Offline   bool   `ext:"offline"`
}

// QueryCorrectionOffsetRequestHeader is for QUERY_CORRECTION_OFFSET (308).
type QueryCorrectionOffsetRequestHeader struct {
	TopicHeader
	FilterGroups string `ext:"filterGroups"`
	CompareGroup string `ext:"compareGroup,required"`
	Topic        string `ext:"topic,required"`
}

// ProducerGroupRequestHeader is for GET_PRODUCER_CONNECTION_LIST (204).
type ProducerGroupRequestHeader struct {
	RPCHeader
	ProducerGroup string `ext:"producerGroup,required"`
}

// GetConsumeStatsRequestHeader is for GET_CONSUME_STATS (208).
type GetConsumeStatsRequestHeader struct {
	TopicHeader
	ConsumerGroup string `ext:"consumerGroup,required"`
	Topic         string `ext:"topic"`
	TopicList     string `ext:"topicList"` // joined by ";"
}

// GetBrokerConsumeStatsRequestHeader is for GET_BROKER_CONSUME_STATS (317).
type GetBrokerConsumeStatsRequestHeader struct {
	IsOrder bool `ext:"isOrder,required"`
}

// QueryConsumeTimeSpanRequestHeader is for QUERY_CONSUME_TIME_SPAN (303).
type QueryConsumeTimeSpanRequestHeader struct {
	TopicHeader
	Topic string `ext:"topic,required"`
	Group string `ext:"group,required"`
}

// ViewBrokerStatsDataRequestHeader is for VIEW_BROKER_STATS_DATA (315).
type ViewBrokerStatsDataRequestHeader struct {
	StatsName string `ext:"statsName,required"`
	StatsKey  string `ext:"statsKey,required"`
}

// GetBrokerConfigResponseHeader answers GET_BROKER_CONFIG (26).
type GetBrokerConfigResponseHeader struct {
	Version string `ext:"version,required"` // DataVersion as JSON
}

// CheckRocksDBCQWriteProgressRequestHeader is for CHECK_ROCKSDB_CQ_WRITE_PROGRESS (354).
type CheckRocksDBCQWriteProgressRequestHeader struct {
	Topic          string `ext:"topic,required"`
	CheckStoreTime int64  `ext:"checkStoreTime"` // milliseconds
}

// ExportRocksDBConfigRequestHeader is for EXPORT_ROCKSDB_CONFIG_TO_JSON (355).
type ExportRocksDBConfigRequestHeader struct {
	ConfigType string `ext:"configType,required"` // joined by ";"
}

// UserRequestHeader is for AUTH_CREATE_USER (3001), AUTH_UPDATE_USER, AUTH_DELETE_USER and AUTH_GET_USER
// (3004).
type UserRequestHeader struct {
	Username string `ext:"username"`
}

// ListUsersRequestHeader is for AUTH_LIST_USER (3005).
type ListUsersRequestHeader struct {
	Filter string `ext:"filter"`
}

// ACLRequestHeader is for AUTH_CREATE_ACL (3006), AUTH_UPDATE_ACL, AUTH_DELETE_ACL (which alone has policy
// type and resource) and AUTH_GET_ACL (3009).
type ACLRequestHeader struct {
	Subject    string `ext:"subject"` // "User:name"
	PolicyType string `ext:"policyType"`
	Resource   string `ext:"resource"`
}

// ListACLsRequestHeader is for AUTH_LIST_ACL (3010).
type ListACLsRequestHeader struct {
	SubjectFilter  string `ext:"subjectFilter"`
	ResourceFilter string `ext:"resourceFilter"`
}

// CreateAccessConfigRequestHeader is for UPDATE_AND_CREATE_ACL_CONFIG (50) of ACL 1.0. Perms are lists by
// comma.
type CreateAccessConfigRequestHeader struct {
	AccessKey          string `ext:"accessKey,required"`
	SecretKey          string `ext:"secretKey"`
	WhiteRemoteAddress string `ext:"whiteRemoteAddress"`
	Admin              bool   `ext:"admin"`
	DefaultTopicPerm   string `ext:"defaultTopicPerm"`
	DefaultGroupPerm   string `ext:"defaultGroupPerm"`
	TopicPerms         string `ext:"topicPerms"`
	GroupPerms         string `ext:"groupPerms"`
}

// DeleteAccessConfigRequestHeader is for DELETE_ACL_CONFIG (51).
type DeleteAccessConfigRequestHeader struct {
	AccessKey string `ext:"accessKey,required"`
}

// GetBrokerACLInfoResponseHeader answers GET_BROKER_CLUSTER_ACL_INFO (52).
type GetBrokerACLInfoResponseHeader struct {
	Version           string `ext:"version"`
	AllACLFileVersion string `ext:"allAclFileVersion"`
	BrokerName        string `ext:"brokerName"`
	BrokerAddr        string `ext:"brokerAddr"`
	ClusterName       string `ext:"clusterName"`
}

// UpdateGlobalWhiteAddrsRequestHeader is for UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53).
type UpdateGlobalWhiteAddrsRequestHeader struct {
	GlobalWhiteAddrs string `ext:"globalWhiteAddrs,required"` // joined by ","
	ACLFileFullPath  string `ext:"aclFileFullPath"`
}
