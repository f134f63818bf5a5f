package fastjson

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Bodies as broker and name server declare them, cut down to what testdata/bodies holds. Those files were
// written by the classes of RocketMQ 5.3.3 and fastjson 1.2.83.

type messageQueue struct {
	BrokerName string `json:"brokerName"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

type dataVersion struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"`
	Timestamp    int64 `json:"timestamp"`
}

type routeData struct {
	OrderTopicConf    string              `json:"orderTopicConf,omitnull"`
	QueueDatas        []queueData         `json:"queueDatas"`
	BrokerDatas       []brokerData        `json:"brokerDatas"`
	FilterServerTable map[string][]string `json:"filterServerTable"`
}

type queueData struct {
	BrokerName    string `json:"brokerName"`
	ReadQueueNums int    `json:"readQueueNums"`
	Writes        int    `json:"writeQueueNums"`
	Perm          int    `json:"perm"`
	TopicSysFlag  int    `json:"topicSysFlag"`
}

type brokerData struct {
	Cluster            string           `json:"cluster"`
	BrokerName         string           `json:"brokerName"`
	BrokerAddrs        map[int64]string `json:"brokerAddrs"`
	ZoneName           *string          `json:"zoneName"`
	EnableActingMaster bool             `json:"enableActingMaster"`
}

type versioned struct {
	DataVersion dataVersion `json:"dataVersion"`
}

type topics struct {
	versioned
	Table map[string]topicConfig `json:"topicConfigTable"`
}

type topicConfig struct {
	Attributes      map[string]string `json:"attributes"`
	Order           bool              `json:"order"`
	Perm            int               `json:"perm"`
	ReadQueueNums   int               `json:"readQueueNums"`
	TopicFilterType filterType        `json:"topicFilterType"`
	TopicName       string            `json:"topicName"`
	TopicSysFlag    int               `json:"topicSysFlag"`
	WriteQueueNums  int               `json:"writeQueueNums"`
}

func (c *topicConfig) SetDefaults() { c.Perm, c.ReadQueueNums, c.WriteQueueNums = 6, 16, 16 }

// filterType is an enum as body types declare it: Java's names in any case, or the ordinal.
type filterType int

var filterTypes = []string{"SINGLE_TAG", "MULTI_TAG"}

func (f filterType) MarshalFastjson() (any, error) { return filterTypes[f], nil }

func (f *filterType) UnmarshalFastjson(v *Value) error {
	if v.Kind() == Number {
		n, err := v.Int64()
		if err != nil || n < 0 || n >= int64(len(filterTypes)) {
			return fmt.Errorf("no TopicFilterType %s", v)
		}
		*f = filterType(n)
		return nil
	}
	for i, name := range filterTypes {
		if strings.EqualFold(name, v.Text()) {
			*f = filterType(i)
		}
	}
	return nil
}

type offsets struct {
	versioned
	Table map[string]map[int32]int64 `json:"offsetTable"`
}

type consumeStats struct {
	ConsumeTps  float64                        `json:"consumeTps"`
	OffsetTable map[messageQueue]offsetWrapper `json:"offsetTable"`
}

type offsetWrapper struct {
	BrokerOffset   int64 `json:"brokerOffset"`
	ConsumerOffset int64 `json:"consumerOffset"`
	LastTimestamp  int64 `json:"lastTimestamp"`
	PullOffset     int64 `json:"pullOffset"`
}

type lockBody struct {
	ClientID       string         `json:"clientId"`
	ConsumerGroup  string         `json:"consumerGroup"`
	MqSet          []messageQueue `json:"mqSet,set"`
	OnlyThisBroker bool           `json:"onlyThisBroker"`
}

type heartbeat struct {
	ClientID    string         `json:"clientID"`
	Consumers   []consumerData `json:"consumerDataSet,set"`
	Fingerprint int32          `json:"heartbeatFingerprint"`
	Producers   []producerData `json:"producerDataSet,set"`
	WithoutSub  bool           `json:"withoutSub"`
}

type producerData struct {
	GroupName string `json:"groupName"`
}

type consumerData struct {
	GroupName        string             `json:"groupName"`
	ConsumeType      string             `json:"consumeType"`
	MessageModel     string             `json:"messageModel"`
	ConsumeFromWhere string             `json:"consumeFromWhere"`
	Subscriptions    []subscriptionData `json:"subscriptionDataSet,set"`
	UnitMode         bool               `json:"unitMode"`
}

type subscriptionData struct {
	ClassFilterMode bool     `json:"classFilterMode"`
	CodeSet         []int32  `json:"codeSet,set"`
	ExpressionType  string   `json:"expressionType"`
	SubString       string   `json:"subString"`
	SubVersion      int64    `json:"subVersion"`
	TagsSet         []string `json:"tagsSet,set"`
	Topic           string   `json:"topic"`
}

type groupConfig struct {
	Attributes                     map[string]string `json:"attributes"`
	BrokerID                       int64             `json:"brokerId"`
	ConsumeBroadcastEnable         bool              `json:"consumeBroadcastEnable"`
	ConsumeEnable                  bool              `json:"consumeEnable"`
	ConsumeFromMinEnable           bool              `json:"consumeFromMinEnable"`
	ConsumeMessageOrderly          bool              `json:"consumeMessageOrderly"`
	ConsumeTimeoutMinute           int               `json:"consumeTimeoutMinute"`
	GroupName                      string            `json:"groupName"`
	GroupRetryPolicy               retryPolicy       `json:"groupRetryPolicy"`
	GroupSysFlag                   int               `json:"groupSysFlag"`
	NotifyConsumerIdsChangedEnable bool              `json:"notifyConsumerIdsChangedEnable"`
	RetryMaxTimes                  int               `json:"retryMaxTimes"`
	RetryQueueNums                 int               `json:"retryQueueNums"`
	SubscriptionDataSet            []int             `json:"subscriptionDataSet,omitnull"`
	WhichBroker                    int64             `json:"whichBrokerWhenConsumeSlowly"`
}

type retryPolicy struct {
	Type   string `json:"type"`
	Custom *struct {
		Next []int64 `json:"next"`
	} `json:"customizedRetryPolicy"`
}

type ackBody struct {
	Acks       []batchAck `json:"acks"`
	BrokerName string     `json:"brokerName"`
}

type batchAck struct {
	BitSet        []byte `json:"b" alt:"bitSet"`
	ConsumerGroup string `json:"c" alt:"consumerGroup"`
	InvisibleTime int64  `json:"it" alt:"invisibleTime"`
	PopTime       int64  `json:"pt" alt:"popTime"`
	QueueID       int32  `json:"q" alt:"queueId"`
	Retry         string `json:"r" alt:"retry"`
	ReviveQueueID int32  `json:"rq" alt:"reviveQueueId"`
	StartOffset   int64  `json:"so" alt:"startOffset"`
	Topic         string `json:"t" alt:"topic"`
}

// TestBodiesAgainstJava: what Java wrote comes back byte for byte, compact, pretty and standard.
func TestBodiesAgainstJava(t *testing.T) {
	f := func(name string, body any) {
		t.Helper()
		compact, err := os.ReadFile("testdata/bodies/" + name + ".json")
		require.NoError(t, err)
		pretty, err := os.ReadFile("testdata/bodies/" + name + ".pretty.json")
		require.NoError(t, err)
		for _, text := range [][]byte{compact, pretty} {
			got := reflect.New(reflect.TypeOf(body)).Interface()
			require.NoError(t, Unmarshal(text, got))
			out, err := Marshal(got)
			require.NoError(t, err)
			require.Equal(t, string(compact), string(out))
			out, err = MarshalPretty(got)
			require.NoError(t, err)
			require.Equal(t, string(pretty), string(out))

			tree, err := Parse(text)
			require.NoError(t, err)
			out, err = Marshal(tree)
			require.NoError(t, err)
			require.Equal(t, string(compact), string(out))

			out, err = MarshalStandard(got)
			require.NoError(t, err)
			again := reflect.New(reflect.TypeOf(body)).Interface()
			require.NoError(t, Unmarshal(out, again))
			require.Equal(t, got, again)
		}
	}
	f("route", routeData{})
	f("topics", topics{})
	f("offsets", offsets{})
	f("stats", consumeStats{})
	f("lock", lockBody{})
	f("heartbeat", heartbeat{})
	f("group", groupConfig{})
	f("ack", ackBody{})
}

func TestStandardRouteAgainstJava(t *testing.T) {
	var route routeData
	want, err := os.ReadFile("testdata/bodies/route.standard.json")
	require.NoError(t, err)
	require.NoError(t, Unmarshal(want, &route))
	out, err := MarshalStandard(route)
	require.NoError(t, err)
	require.Equal(t, string(want), string(out))
}

// TestRefsFromJava reads documents in which fastjson wrote references.
func TestRefsFromJava(t *testing.T) {
	text, err := os.ReadFile("testdata/bodies/refs.json")
	require.NoError(t, err)
	var stats struct{ StatsDay, StatsHour, StatsMinute struct{ Sum int64 } }
	require.NoError(t, Unmarshal(text, &stats))
	require.Equal(t, []int64{5, 5, 0}, []int64{stats.StatsDay.Sum, stats.StatsHour.Sum, stats.StatsMinute.Sum})

	text, err = os.ReadFile("testdata/bodies/running.json")
	require.NoError(t, err)
	var running struct {
		MqTable    map[messageQueue]struct{ CommitOffset int64 }
		MqPopTable map[messageQueue]struct{ WaitAckCount int32 }
	}
	require.NoError(t, Unmarshal(text, &running))
	q1, q2 := messageQueue{"b", 1, "t"}, messageQueue{"b", 2, "t"}
	require.Len(t, running.MqTable, 2, "Java itself loses one of them")
	require.EqualValues(t, 11, running.MqTable[q1].CommitOffset)
	require.EqualValues(t, 22, running.MqTable[q2].CommitOffset)
	require.EqualValues(t, 2, running.MqPopTable[q2].WaitAckCount)
}
