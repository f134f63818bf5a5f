package body_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

// requireShape checks v's text, and that what is read back from it gives the same text.
func requireShape(t *testing.T, v any, want string) {
	t.Helper()
	got, err := body.Encode(v)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	back := reflect.New(reflect.TypeOf(v))
	require.NoError(t, body.Decode(got, back.Interface()))
	again, err := body.Encode(back.Interface())
	require.NoError(t, err)
	require.Equal(t, want, string(again))
}

// TestShapes has the texts of spec bodies.md that Java classes were seen to write.
func TestShapes(t *testing.T) {
	f := func(v any, want string) { t.Helper(); requireShape(t, v, want) }
	mq := body.MessageQueue{BrokerName: "b", QueueID: 3, Topic: "T"}
	topic := body.TopicConfig{}
	topic.SetDefaults()
	topic.TopicName = "T"
	f(topic, `{"attributes":{},"order":false,"perm":6,"readQueueNums":16,"topicFilterType":"SINGLE_TAG",`+
		`"topicName":"T","topicSysFlag":0,"writeQueueNums":16}`)
	f(*body.NewSubscriptionGroupConfig("g"), `{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,`+
		`"consumeEnable":true,"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,`+
		`"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,`+
		`"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,`+
		`"whichBrokerWhenConsumeSlowly":1}`)
	f(body.TopicStatsTable{OffsetTable: map[body.MessageQueue]*body.TopicOffset{mq: {MaxOffset: 10}}},
		`{"offsetTable":{{"brokerName":"b","queueId":3,"topic":"T"}:`+
			`{"lastUpdateTimestamp":0,"maxOffset":10,"minOffset":0}},"topicPutTps":0.0}`)
	f(body.ConsumeStats{OffsetTable: map[body.MessageQueue]*body.OffsetWrapper{mq: {}}},
		`{"consumeTps":0.0,"offsetTable":{{"brokerName":"b","queueId":3,"topic":"T"}:`+
			`{"brokerOffset":0,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}}`)
	f(body.ResetOffsetBody{OffsetTable: map[body.MessageQueue]codec.QueueOffset{mq: 5}},
		`{"offsetTable":{{"brokerName":"b","queueId":3,"topic":"T"}:5}}`)
	f(body.ResetOffsetBodyForC{OffsetTable: []body.MessageQueueForC{{BrokerName: "b", Offset: 2, QueueID: 1,
		Topic: "T"}}},
		`{"offsetTable":[{"brokerName":"b","offset":2,"queueId":1,"topic":"T"}]}`)
	f(body.LockBatchRequestBody{ClientID: "c", ConsumerGroup: "g", MQSet: []body.MessageQueue{mq}},
		`{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":3,"topic":"T"}],`+
			`"onlyThisBroker":false}`)
	f(body.LockBatchResponseBody{}, `{"lockOKMQSet":[]}`)
	f(body.GetConsumerStatusBody{MessageQueueTable: map[body.MessageQueue]codec.QueueOffset{mq: 1}},
		`{"consumerTable":{},"messageQueueTable":{{"brokerName":"b","queueId":3,"topic":"T"}:1}}`)
	f(body.QueryCorrectionOffsetBody{CorrectionOffsets: map[int32]codec.QueueOffset{0: 5, -1: 6}},
		`{"correctionOffsets":{-1:6,0:5}}`)
	f(body.ConsumerOffsetSerializeWrapper{OffsetTable: map[string]map[int32]codec.QueueOffset{"T@g": {1: 7,
		0: 5}}},
		`{"offsetTable":{"T@g":{0:5,1:7}}}`)
}

// TestShapesOfClients has more of the same.
func TestShapesOfClients(t *testing.T) {
	f := func(v any, want string) { t.Helper(); requireShape(t, v, want) }
	f(body.ConsumerConnection{ConnectionSet: []*body.Connection{{ClientAddr: "ip:1", ClientID: "c",
		Language: codec.LanguageGo, Version: 479}}, ConsumeType: body.ConsumePassively,
		MessageModel:     body.Clustering,
		ConsumeFromWhere: body.FromLastOffset}, `{"connectionSet":[{"clientAddr":"ip:1","clientId":"c",`+
		`"language":"GO","version":479}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",`+
		`"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":{}}`)
	f(body.BatchAckMessageRequestBody{BrokerName: "b", Acks: []*body.BatchAck{{BitSet: body.BitSet{1, 2},
		ConsumerGroup: "g", InvisibleTime: 1, PopTime: 2, QueueID: 3, Retry: "0", ReviveQueueID: 4, StartOffset: 5,
		Topic: "T"}}}, `{"acks":[{"b":"AQI=","c":"g","it":1,"pt":2,"q":3,"r":"0","rq":4,"so":5,"t":"T"}],`+
		`"brokerName":"b"}`)
	f(body.BrokerStatsData{StatsDay: &body.BrokerStatsItem{}, StatsHour: &body.BrokerStatsItem{},
		StatsMinute: &body.BrokerStatsItem{AvgPT: 1, Sum: 2, TPS: 0.5}},
		`{"statsDay":{"avgpt":0.0,"sum":0,"tps":0.0},`+
			`"statsHour":{"avgpt":0.0,"sum":0,"tps":0.0},"statsMinute":{"avgpt":1.0,"sum":2,"tps":0.5}}`)
	f(body.EpochEntryCache{EpochList: []*body.EpochEntry{{EndOffset: math.MaxInt64, Epoch: 1}}, BrokerName: "b",
		ClusterName: "c"}, `{"brokerId":0,"brokerName":"b","clusterName":"c","epochList":[{"endOffset":`+
		`9223372036854775807,"epoch":1,"startOffset":0}],"maxOffset":0}`)
	f(body.SyncStateSet{SyncStateSet: []int64{1, 2}, SyncStateSetEpoch: 3},
		`{"syncStateSet":[1,2],"syncStateSetEpoch":3}`)
	f(body.HeartbeatData{ClientID: "c", ProducerDataSet: []*body.ProducerData{{GroupName: "pg"}}},
		`{"clientID":"c","consumerDataSet":[],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"pg"}],`+
			`"withoutSub":false}`)
	f(body.QueryAssignmentResponseBody{}, `{}`)
	f(body.QueryAssignmentResponseBody{MessageQueueAssignments: &[]*body.MessageQueueAssignment{}},
		`{"messageQueueAssignments":[]}`)
	f(body.KVTable{Table: map[string]string{"b": "2", "a": "1"}}, `{"table":{"a":"1","b":"2"}}`)
	f(body.TopicList{TopicList: []string{"T"}}, `{"topicList":["T"]}`)
	f(body.ClusterInfo{BrokerAddrTable: map[string]*body.BrokerData{"b": {
		BrokerAddrs: map[int64]string{0: "a:1"},
		BrokerName:  "b", Cluster: "C"}}, ClusterAddrTable: map[string][]string{"C": {"b"}}},
		`{"brokerAddrTable":{"b":{"brokerAddrs":{0:"a:1"},"brokerName":"b","cluster":"C",`+
			`"enableActingMaster":false}},"clusterAddrTable":{"C":["b"]}}`)
	f(body.ACLInfo{Subject: "User:alice", Policies: []*body.ACLPolicy{{PolicyType: "Custom",
		Entries: []*body.ACLEntry{
			{Resource: "Topic:foo*", Actions: []string{"Pub"}, Decision: "Allow"}}}}},
		`{"policies":[{"entries":[{"actions":["Pub"],"decision":"Allow","resource":"Topic:foo*"}],`+
			`"policyType":"Custom"}],"subject":"User:alice"}`)
}

// fill gives every exported field a value of its own, so that a round trip shows each that is lost.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, n)
			fill(elem, n)
			v.SetMapIndex(key, elem)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		fillString(v, *n)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n) / 4)
	case reflect.Uint8:
		v.SetUint(uint64(*n % 10))
	default:
		v.SetInt(int64(*n))
	}
}

func fillString(v reflect.Value, n int) {
	enums := map[reflect.Type]string{
		reflect.TypeFor[body.TopicFilterType]():      string(body.MultiTag),
		reflect.TypeFor[body.ConsumeType]():          string(body.ConsumePop),
		reflect.TypeFor[body.MessageModel]():         string(body.Broadcasting),
		reflect.TypeFor[body.ConsumeFromWhere]():     string(body.FromTimestamp),
		reflect.TypeFor[body.CMResult]():             string(body.ResultCommit),
		reflect.TypeFor[body.MessageRequestMode]():   string(body.ModePop),
		reflect.TypeFor[body.GroupRetryPolicyType](): string(body.RetryExponential),
	}
	text, ok := enums[v.Type()]
	if !ok {
		text = fmt.Sprintf("text %d \"ü\" 中/😀", n)
	}
	v.SetString(text)
}

// TestBodiesRoundTrip fills every body and reads it back from both encodings.
func TestBodiesRoundTrip(t *testing.T) {
	prototypes := []any{body.OffsetMovedEvent{}, body.ColdDataFlowCtrInfo{}, body.CheckRocksDBCQWriteResult{},
		body.KVConfigSerializeWrapper{}, body.TopicQueueMappingSerializeWrapper{},
		body.TopicRemappingDetailWrapper{},
		body.ResetOffsetBodyForC{}, body.RoleChangeNotifyEntry{}, body.SubscriptionGroupList{},
		body.TopicConfigSerializeWrapper{}}
	for _, s := range shapes {
		prototypes = append(prototypes, s.reqBody, s.respBody)
	}
	for _, prototype := range prototypes {
		if prototype == nil {
			continue
		}
		want := reflect.New(reflect.TypeOf(prototype))
		n := 0
		fill(want.Elem(), &n)
		data, err := body.Encode(want.Interface())
		require.NoError(t, err)
		got := reflect.New(reflect.TypeOf(prototype))
		require.NoError(t, body.Decode(data, got.Interface()), "%T", prototype)
		require.Equal(t, want.Interface(), got.Interface())
	}
}

func TestDefaults(t *testing.T) {
	var w body.SubscriptionGroupWrapper
	require.NoError(t,
		body.Decode([]byte(`{"subscriptionGroupTable":{"g":{"groupName":"g","retryMaxTimes":3}}}`), &w))
	want := body.NewSubscriptionGroupConfig("g")
	want.RetryMaxTimes = 3
	require.Equal(t, want, w.SubscriptionGroupTable["g"])

	var c body.TopicConfigSerializeWrapper
	require.NoError(t, body.Decode([]byte(`{"topicConfigTable":{"T":{"topicName":"T","perm":4}}}`), &c))
	require.EqualValues(t, 4, c.TopicConfigTable["T"].Perm)
	require.EqualValues(t, 16, c.TopicConfigTable["T"].ReadQueueNums)
	require.Equal(t, body.SingleTag, c.TopicConfigTable["T"].TopicFilterType)

	var r body.ConsumeMessageDirectlyResult
	require.NoError(t, body.Decode([]byte(`{"consumeResult":4}`), &r), "client-go sends the ordinal")
	require.Equal(t, body.ConsumeMessageDirectlyResult{AutoCommit: true,
		ConsumeResult: body.ResultThrowException}, r)

	var m body.LogicQueueMappingItem
	require.NoError(t, body.Decode([]byte(`{}`), &m))
	require.Equal(t, body.LogicQueueMappingItem{EndOffset: -1, TimeOfEnd: -1, TimeOfStart: -1}, m)

	var a body.MessageQueueAssignment
	require.NoError(t, body.Decode([]byte(`{"mode":"pop"}`), &a))
	require.Equal(t, body.ModePop, a.Mode)
	require.NoError(t, body.Decode([]byte(`{"mode":"nonsense"}`), &a))
	require.Empty(t, a.Mode, "Java: null")
}

func TestDataVersion(t *testing.T) {
	v := body.DataVersion{Counter: 1, StateVersion: 2, Timestamp: 3}
	require.Zero(t, v.Compare(v))
	require.Equal(t, 1, v.Compare(body.DataVersion{Counter: 9, StateVersion: 1, Timestamp: 9}))
	require.Equal(t, -1, v.Compare(body.DataVersion{Counter: 2, StateVersion: 2, Timestamp: 1}))
	require.Equal(t, 1, v.Compare(body.DataVersion{Counter: 1, StateVersion: 2, Timestamp: 2}))
	require.Equal(t, body.DataVersion{Counter: 2, StateVersion: 7, Timestamp: 99}, v.Next(99, 7))
}

func TestBitSet(t *testing.T) {
	var s body.BitSet
	require.Zero(t, s.Len())
	s.Set(0)
	s.Set(9)
	require.Equal(t, body.BitSet{1, 2}, s)
	require.True(t, s.Has(9))
	require.False(t, s.Has(8))
	require.False(t, s.Has(100))
	require.False(t, s.Has(-1))
	require.Equal(t, 2, s.Count())
	require.Equal(t, 10, s.Len())
	require.Equal(t, 1, body.BitSet{1, 0}.Len())
}

func TestBatchAckLongNames(t *testing.T) {
	var b body.BatchAckMessageRequestBody
	require.NoError(t,
		body.Decode([]byte(`{"acks":[{"bitSet":"AQI=","consumerGroup":"g","topic":"T","retry":"1",`+
			`"startOffset":5,"queueId":1,"reviveQueueId":2,"popTime":3,"invisibleTime":4}]}`), &b))
	require.Equal(t, &body.BatchAck{BitSet: body.BitSet{1, 2}, ConsumerGroup: "g", InvisibleTime: 4, PopTime: 3,
		QueueID: 1, Retry: "1", ReviveQueueID: 2, StartOffset: 5, Topic: "T"}, b.Acks[0])
}

func TestTimerCheckpoint(t *testing.T) {
	c := body.TimerCheckpoint{LastReadTimeMillis: 1, LastTimerLogFlushPos: 2, LastTimerQueueOffset: 3,
		MasterTimerQueueOffset: 4, DataVersion: body.DataVersion{StateVersion: 5, Timestamp: 6, Counter: 7}}
	b := c.Append(nil)
	require.Len(t, b, 56)
	for i := range 7 {
		require.EqualValues(t, i+1, b[8*i+7])
	}
	got, err := body.ParseTimerCheckpoint(b)
	require.NoError(t, err)
	require.Equal(t, c, got)
	got, err = body.ParseTimerCheckpoint(b[:32])
	require.NoError(t, err)
	c.DataVersion = body.DataVersion{}
	require.Equal(t, c, got)
	_, err = body.ParseTimerCheckpoint(b[:31])
	require.Error(t, err)
}

func TestRetryPolicy(t *testing.T) {
	f := func(p *body.GroupRetryPolicy, reconsumeTimes int32, want time.Duration) {
		t.Helper()
		require.Equal(t, want, p.NextDelay(reconsumeTimes))
	}
	f(nil, 0, 10*time.Second)
	f(nil, 1, 30*time.Second)
	f(nil, 15, 2*time.Hour)
	f(nil, 1000, 2*time.Hour)
	f(nil, -5, 10*time.Second)
	f(&body.GroupRetryPolicy{Type: body.RetryCustomized, CustomizedRetryPolicy: &body.CustomizedRetryPolicy{
		Next: []int64{1000, 2000}}}, 0, 2*time.Second)
	e := &body.GroupRetryPolicy{Type: body.RetryExponential}
	f(e, 0, 5*time.Second)
	f(e, 3, 40*time.Second)
	f(e, math.MaxInt32, 2*time.Hour)
	e.ExponentialRetryPolicy = &body.ExponentialRetryPolicy{Initial: 1000, Max: math.MaxInt64, Multiplier: 0}
	f(e, 30, time.Second)
}
