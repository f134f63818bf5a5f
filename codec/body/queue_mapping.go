package body

import "skylark/codec"

// TopicQueueMappingInfo is a broker's share of a static topic (Java TopicQueueMappingInfo).
type TopicQueueMappingInfo struct {
	BrokerName  string          `json:"bname,omitnull"`
	CurrIDMap   map[int32]int32 `json:"currIdMap"` // logical to physical queue id
	Dirty       bool            `json:"dirty"`
	Epoch       int64           `json:"epoch"`
	Scope       string          `json:"scope,omitnull"`
	Topic       string          `json:"topic,omitnull"`
	TotalQueues int32           `json:"totalQueues"`
}

// SetDefaults gives the global scope.
func (m *TopicQueueMappingInfo) SetDefaults() { m.Scope = codec.MetadataScopeGlobal }

// TopicQueueMappingDetail adds where each logical queue was and is (Java TopicQueueMappingDetail).
type TopicQueueMappingDetail struct {
	TopicQueueMappingInfo
	HostedQueues map[int32][]LogicQueueMappingItem `json:"hostedQueues"` // by logical queue id
}

// LogicQueueMappingItem is one stretch of a logical queue (Java LogicQueueMappingItem).
type LogicQueueMappingItem struct {
	BrokerName  string `json:"bname,omitnull"`
	EndOffset   int64  `json:"endOffset"` // exclusive; -1: open
	Gen         int32  `json:"gen"`
	LogicOffset int64  `json:"logicOffset"`
	QueueID     int32  `json:"queueId"`
	StartOffset int64  `json:"startOffset"`
	TimeOfEnd   int64  `json:"timeOfEnd"`
	TimeOfStart int64  `json:"timeOfStart"`
}

// SetDefaults leaves end and times open: -1.
func (m *LogicQueueMappingItem) SetDefaults() { m.EndOffset, m.TimeOfEnd, m.TimeOfStart = -1, -1, -1 }

// TopicConfigAndQueueMapping answers GET_TOPIC_CONFIG (351).
type TopicConfigAndQueueMapping struct {
	TopicConfig
	MappingDetail *TopicQueueMappingDetail `json:"mappingDetail"`
}

// TopicRemappingDetailWrapper is the file that mqadmin writes while it moves a static topic.
type TopicRemappingDetailWrapper struct {
	BrokerConfigMap map[string]*TopicConfigAndQueueMapping `json:"brokerConfigMap"`
	BrokerToMapIn   []string                               `json:"brokerToMapIn"`
	BrokerToMapOut  []string                               `json:"brokerToMapOut"`
	Epoch           int64                                  `json:"epoch"`
	Topic           string                                 `json:"topic,omitnull"`
	Type            string                                 `json:"type,omitnull"`
}
