package body_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
)

func testRoute() *body.TopicRouteData {
	return &body.TopicRouteData{
		BrokerDatas: []*body.BrokerData{{BrokerAddrs: map[int64]string{0: "1.2.3.4:10911", 1: "1.2.3.5:10911"},
			BrokerName: "b-a", Cluster: "C"}},
		QueueDatas: []*body.QueueData{{BrokerName: "b-a", Perm: 6, ReadQueueNums: 8, WriteQueueNums: 8}},
	}
}

// TestRouteEncodings has the two texts of spec bodies.md §2.
func TestRouteEncodings(t *testing.T) {
	f := func(version int, acceptStandard bool, addrs string) {
		t.Helper()
		got, err := testRoute().Encode(version, acceptStandard)
		require.NoError(t, err)
		require.Equal(t, `{"brokerDatas":[{"brokerAddrs":`+addrs+`,"brokerName":"b-a","cluster":"C",`+
			`"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"b-a","perm":6,`+
			`"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}`, string(got))
		var back body.TopicRouteData
		require.NoError(t, body.Decode(got, &back))
		want := testRoute()
		want.FilterServerTable = map[string][]string{}
		require.Equal(t, want, &back)
	}
	standard := `{"0":"1.2.3.4:10911","1":"1.2.3.5:10911"}`
	legacy := `{0:"1.2.3.4:10911",1:"1.2.3.5:10911"}`
	f(codec.Version533, false, standard)
	f(codec.Version494, false, standard)
	f(codec.Version494-1, false, legacy)
	f(317, false, legacy)
	f(317, true, standard)
	require.Equal(t, "1.2.3.4:10911", testRoute().BrokerDatas[0].MasterAddr())
}

func TestHeartbeatOfClientGo(t *testing.T) {
	var h body.HeartbeatData
	require.NoError(t, body.Decode([]byte(`{"clientID":"c","consumerDataSet":[{"groupName":"g",`+
		`"consumeType":"CONSUME_PASSIVELY","messageModel":"Clustering","consumeFromWhere":4,`+
		`"subscriptionDataSet":[{"topic":"T","subString":"A","codeSet":["65"],"tagsSet":["A"],"subVersion":1}]}]}`),
		&h))
	c := h.ConsumerDataSet[0]
	require.Equal(t, body.Clustering, c.MessageModel)
	require.Equal(t, body.FromFirstOffset, c.ConsumeFromWhere)
	require.Equal(t, []int32{65}, c.SubscriptionDataSet[0].CodeSet)
	require.Equal(t, body.ExpressionTag, c.SubscriptionDataSet[0].ExpressionType)
}

func TestNewSubscription(t *testing.T) {
	f := func(expression, expressionType, subString string, tags []string, codes []int32) {
		t.Helper()
		s, err := body.NewSubscription("T", expression, expressionType)
		require.NoError(t, err)
		want := &body.SubscriptionData{Topic: "T", SubString: subString, TagsSet: tags, CodeSet: codes,
			ExpressionType: body.ExpressionTag}
		if expressionType != "" {
			want.ExpressionType = expressionType
		}
		require.Equal(t, want, s)
	}
	f("", "", "*", nil, nil)
	f("*", "TAG", "*", nil, nil)
	f("A", "", "A", []string{"A"}, []int32{65})
	f(" A || B||A|| ", "", " A || B||A|| ", []string{"A", "B"}, []int32{65, 66})
	f("Aa||BB", "", "Aa||BB", []string{"Aa", "BB"}, []int32{2112})
	f("|", "", "|", []string{"|"}, []int32{124})
	f("a > 5", "SQL92", "a > 5", nil, nil)

	_, err := body.NewSubscription("T", "||", "TAG")
	require.ErrorIs(t, err, body.ErrSubscription)
	_, err = body.NewSubscription("T", "", "SQL92")
	require.ErrorIs(t, err, body.ErrSubscription)
}

func TestRecomputeCodes(t *testing.T) {
	f := func(s body.SubscriptionData, want []int32) {
		t.Helper()
		s.RecomputeCodes()
		require.Equal(t, want, s.CodeSet)
	}
	f(body.SubscriptionData{SubString: "A || B"}, []int32{65, 66})
	f(body.SubscriptionData{SubString: "A", CodeSet: []int32{1}}, []int32{1})
	f(body.SubscriptionData{SubString: "*"}, nil)
	f(body.SubscriptionData{SubString: "a > 5", ExpressionType: "SQL92"}, nil)
}
