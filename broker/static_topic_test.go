package broker

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

// staticRequest is what mqadmin updateStaticTopic sends.
func staticRequest(t *testing.T, topicName string, epoch int64, queues int32,
	alter func(h *codec.CreateTopicRequestHeader, d *body.TopicQueueMappingDetail)) *codec.Command {
	d := &body.TopicQueueMappingDetail{TopicQueueMappingInfo: body.TopicQueueMappingInfo{BrokerName: "broker-a",
		Epoch: epoch, Scope: codec.MetadataScopeGlobal, Topic: topicName, TotalQueues: queues},
		HostedQueues: map[int32][]body.LogicQueueMappingItem{}}
	for id := range queues {
		d.HostedQueues[id] = []body.LogicQueueMappingItem{{BrokerName: "broker-a", QueueID: id, EndOffset: -1,
			TimeOfEnd: -1, TimeOfStart: -1}}
	}
	h := &codec.CreateTopicRequestHeader{Topic: topicName, DefaultTopic: codec.AutoCreateTopicKey, ReadQueueNums: queues,
		WriteQueueNums: queues, Perm: 6, TopicFilterType: "SINGLE_TAG"}
	if alter != nil {
		alter(h, d)
	}
	data, err := body.Encode(d)
	require.NoError(t, err)
	return request(codec.ReqUpdateAndCreateStaticTopic, h, data)
}

// A static topic is in the routes with its mapping, and what tools ask for has it; an error changes nothing.
func TestStaticTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := newNamesrv(t)
		b := start(t, setup{fs: vfs.NewMem(), virtual: true, namesrv: ns, conf: "namesrvAddr=ns1:9876\n" +
			"serverChannelMaxIdleTimeSeconds=1000000\n"})
		synctest.Wait()
		ns.take()
		mapped := func() *body.TopicQueueMappingInfo { // of the last registration
			synctest.Wait()
			list := ns.take()
			require.NotEmpty(t, list)
			var reg body.RegisterBrokerBody
			require.NoError(t, body.Decode(list[len(list)-1].Body, &reg))
			return reg.TopicConfigSerializeWrapper.TopicQueueMappingInfoMap["T"]
		}
		must := func(req *codec.Command) {
			t.Helper()
			answer := b.do(req)
			require.Equal(t, codec.RespSuccess, answer.Code, answer.Remark)
		}
		must(staticRequest(t, "T", 10, 2, nil))
		require.Equal(t, map[int32]int32{0: 0, 1: 1}, mapped().CurrIDMap)
		must(staticRequest(t, "T", 20, 2, nil)) // the topic itself has not changed
		require.EqualValues(t, 20, mapped().Epoch)

		yes := true
		lo := &codec.TopicRequestHeader{Topic: "T", TopicHeader: codec.TopicHeader{Logical: &yes}}
		detail := func() *body.TopicQueueMappingDetail {
			var c body.TopicConfigAndQueueMapping
			b.mustCall(codec.ReqGetTopicConfig, lo, &c)
			require.EqualValues(t, 2, c.WriteQueueNums)
			return c.MappingDetail
		}
		require.Len(t, detail().HostedQueues, 2)
		var all body.TopicConfigAndMappingSerializeWrapper
		b.mustCall(codec.ReqGetAllTopicConfig, nil, &all)
		require.Len(t, all.TopicQueueMappingDetailMap["T"].HostedQueues, 2)

		f := func(code int, req *codec.Command) {
			t.Helper()
			answer := b.do(req)
			require.Equal(t, code, answer.Code, answer.Remark)
			require.EqualValues(t, 20, detail().Epoch)
		}
		f(codec.RespInvalidParameter, staticRequest(t, "T", 10, 2, nil))
		f(codec.RespInvalidParameter, staticRequest(t, "T", 30, 2,
			func(h *codec.CreateTopicRequestHeader, d *body.TopicQueueMappingDetail) { h.Perm = 64 }))
		f(codec.RespInvalidParameter, staticRequest(t, "T", 30, 2,
			func(h *codec.CreateTopicRequestHeader, d *body.TopicQueueMappingDetail) { h.WriteQueueNums = 1 }))
		f(codec.RespInvalidParameter, staticRequest(t, "T", 30, 2,
			func(h *codec.CreateTopicRequestHeader, d *body.TopicQueueMappingDetail) { h.TopicFilterType = "NONE" }))
		f(codec.RespInvalidParameter, staticRequest(t, "T", 30, 2,
			func(h *codec.CreateTopicRequestHeader, d *body.TopicQueueMappingDetail) { d.Topic = "U" }))
		f(codec.RespInvalidParameter, staticRequest(t, "T", 30, 2,
			func(h *codec.CreateTopicRequestHeader, d *body.TopicQueueMappingDetail) { d.TotalQueues = 5 }))
		f(codec.RespInvalidParameter, staticRequest(t, codec.ScheduleTopic, 30, 2, nil))
		broken := staticRequest(t, "T", 30, 2, nil)
		broken.Body = []byte("{")
		f(codec.RespInvalidParameter, broken)
		require.Nil(t, b.statics.Get(codec.ScheduleTopic))

		b.mustSend("T", 1, "", "m")
		b = b.restart()
		require.Len(t, detail().HostedQueues, 2)
		require.Equal(t, map[int32]int32{0: 0, 1: 1}, mapped().CurrIDMap)
		b.mustCall(codec.ReqDeleteTopicInBroker, &codec.TopicRequestHeader{Topic: "T"}, nil)
		require.Nil(t, b.statics.Get("T"))
	})
}
