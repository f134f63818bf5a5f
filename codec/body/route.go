package body

import (
	"skylark/codec"
	"skylark/codec/fastjson"
)

// QueueData is what one broker has of a topic (Java QueueData).
type QueueData struct {
	BrokerName     string `json:"brokerName"`
	Perm           int32  `json:"perm"`
	ReadQueueNums  int32  `json:"readQueueNums"`
	TopicSysFlag   int32  `json:"topicSysFlag"`
	WriteQueueNums int32  `json:"writeQueueNums"`
}

// BrokerData is a broker name with the addresses of its members by broker id (Java BrokerData). 4.9 has no
// ZoneName and no EnableActingMaster.
type BrokerData struct {
	BrokerAddrs        map[int64]string `json:"brokerAddrs"`
	BrokerName         string           `json:"brokerName"`
	Cluster            string           `json:"cluster"`
	EnableActingMaster bool             `json:"enableActingMaster"`
	ZoneName           string           `json:"zoneName,omitnull"`
}

// MasterAddr is the address of id 0, "" when there is none.
func (b *BrokerData) MasterAddr() string { return b.BrokerAddrs[codec.MasterID] }

// TopicRouteData answers GET_ROUTEINFO_BY_TOPIC (105). OrderTopicConf is "brokerA:4;brokerB:4" for an ordered
// topic.
type TopicRouteData struct {
	BrokerDatas               []*BrokerData                     `json:"brokerDatas"`
	FilterServerTable         map[string][]string               `json:"filterServerTable"`
	OrderTopicConf            string                            `json:"orderTopicConf,omitnull"`
	QueueDatas                []*QueueData                      `json:"queueDatas"`
	TopicQueueMappingByBroker map[string]*TopicQueueMappingInfo `json:"topicQueueMappingByBroker,omitnull"`
}

// Encode is the route for a requester of the given MQVersion: standard JSON from Version494 on or if it asks
// for that (acceptStandardJsonOnly), else the legacy form with unquoted broker ids, which client-go (it
// announces 317) needs.
func (r *TopicRouteData) Encode(version int, acceptStandard bool) ([]byte, error) {
	if version >= codec.Version494 || acceptStandard {
		return fastjson.MarshalStandard(r)
	}
	return fastjson.Marshal(r)
}

// ClusterInfo answers GET_BROKER_CLUSTER_INFO (106).
type ClusterInfo struct {
	BrokerAddrTable  map[string]*BrokerData `json:"brokerAddrTable"`  // by broker name
	ClusterAddrTable map[string][]string    `json:"clusterAddrTable"` // cluster to broker names
}

// BrokerMemberGroup is the members of a broker name (Java BrokerMemberGroup).
type BrokerMemberGroup struct {
	BrokerAddrs map[int64]string `json:"brokerAddrs"`
	BrokerName  string           `json:"brokerName"`
	Cluster     string           `json:"cluster"`
}

// GetBrokerMemberGroupResponseBody answers GET_BROKER_MEMBER_GROUP (901).
type GetBrokerMemberGroupResponseBody struct {
	BrokerMemberGroup *BrokerMemberGroup `json:"brokerMemberGroup"`
}
