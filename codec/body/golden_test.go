package body_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/codec/fastjson"
)

// shape is what the header and the body of a request code are bound to, for requests and for answers with
// code 0. A nil header has no fields of its own; a nil body is none, or none that is JSON.
type shape struct{ reqHeader, reqBody, respHeader, respBody any }

var shapes = map[int]shape{
	codec.ReqQueryMessage: {reqHeader: codec.QueryMessageRequestHeader{},
		respHeader: codec.QueryMessageResponseHeader{}},
	codec.ReqQueryConsumerOffset: {reqHeader: codec.QueryConsumerOffsetRequestHeader{},
		respHeader: codec.OffsetResponseHeader{}},
	codec.ReqUpdateConsumerOffset: {reqHeader: codec.UpdateConsumerOffsetRequestHeader{}},
	codec.ReqUpdateAndCreateTopic: {reqHeader: codec.CreateTopicRequestHeader{}},
	codec.ReqUpdateAndCreateTopicList: {reqHeader: codec.RPCHeader{},
		reqBody: body.CreateTopicListRequestBody{}},
	codec.ReqGetAllTopicConfig: {reqHeader: codec.GetAllTopicConfigRequestHeader{},
		respBody: body.TopicConfigAndMappingSerializeWrapper{}},
	codec.ReqGetBrokerConfig:      {respHeader: codec.GetBrokerConfigResponseHeader{}},
	codec.ReqGetBrokerRuntimeInfo: {respBody: body.KVTable{}},
	codec.ReqSearchOffsetByTimestamp: {reqHeader: codec.SearchOffsetRequestHeader{},
		respHeader: codec.OffsetResponseHeader{}},
	codec.ReqGetMaxOffset: {reqHeader: codec.GetMaxOffsetRequestHeader{},
		respHeader: codec.OffsetResponseHeader{}},
	codec.ReqGetMinOffset: {reqHeader: codec.TopicQueueRequestHeader{},
		respHeader: codec.OffsetResponseHeader{}},
	codec.ReqGetEarliestMsgStoreTime: {reqHeader: codec.TopicQueueRequestHeader{},
		respHeader: codec.GetEarliestMsgStoreTimeResponseHeader{}},
	codec.ReqViewMessageByID:     {reqHeader: codec.ViewMessageRequestHeader{}},
	codec.ReqHeartBeat:           {reqHeader: codec.RPCHeader{}, reqBody: body.HeartbeatData{}},
	codec.ReqUnregisterClient:    {reqHeader: codec.UnregisterClientRequestHeader{}},
	codec.ReqConsumerSendMsgBack: {reqHeader: codec.ConsumerSendMsgBackRequestHeader{}},
	codec.ReqEndTransaction:      {reqHeader: codec.EndTransactionRequestHeader{}},
	codec.ReqGetConsumerListByGroup: {reqHeader: codec.ConsumerGroupRequestHeader{},
		respBody: body.GetConsumerListByGroupResponseBody{}},
	codec.ReqCheckTransactionState:    {reqHeader: codec.CheckTransactionStateRequestHeader{}},
	codec.ReqNotifyConsumerIDsChanged: {reqHeader: codec.ConsumerGroupRequestHeader{}},
	codec.ReqLockBatchMQ: {reqHeader: codec.RPCHeader{}, reqBody: body.LockBatchRequestBody{},
		respBody: body.LockBatchResponseBody{}},
	codec.ReqUnlockBatchMQ:        {reqHeader: codec.RPCHeader{}, reqBody: body.LockBatchRequestBody{}},
	codec.ReqGetAllConsumerOffset: {respBody: body.ConsumerOffsetSerializeWrapper{}},
	codec.ReqGetAllDelayOffset:    {respBody: body.DelayOffsetSerializeWrapper{}},
	codec.ReqCheckClientConfig:    {reqBody: body.CheckClientRequestBody{}},
	codec.ReqGetTimerMetrics:      {respBody: body.TimerMetricsSerializeWrapper{}},
	codec.ReqPutKVConfig:          {reqHeader: codec.PutKVConfigRequestHeader{}},
	codec.ReqGetKVConfig: {reqHeader: codec.KVConfigRequestHeader{},
		respHeader: codec.GetKVConfigResponseHeader{}},
	codec.ReqDeleteKVConfig: {reqHeader: codec.KVConfigRequestHeader{}},
	codec.ReqGetKVListByNamespace: {reqHeader: codec.GetKVListByNamespaceRequestHeader{},
		respBody: body.KVTable{}},
	codec.ReqRegisterBroker: {reqHeader: codec.RegisterBrokerRequestHeader{}, reqBody: body.RegisterBrokerBody{},
		respHeader: codec.RegisterBrokerResponseHeader{}, respBody: body.KVTable{}},
	codec.ReqUnregisterBroker: {reqHeader: codec.UnregisterBrokerRequestHeader{}},
	codec.ReqGetRouteInfoByTopic: {reqHeader: codec.GetRouteInfoRequestHeader{},
		respBody: body.TopicRouteData{}},
	codec.ReqGetBrokerClusterInfo:             {respBody: body.ClusterInfo{}},
	codec.ReqUpdateAndCreateSubscriptionGroup: {reqBody: body.SubscriptionGroupConfig{}},
	codec.ReqGetAllSubscriptionGroupConfig:    {respBody: body.SubscriptionGroupWrapper{}},
	codec.ReqGetTopicStatsInfo: {reqHeader: codec.TopicRequestHeader{},
		respBody: body.TopicStatsTable{}},
	codec.ReqGetConsumerConnectionList: {reqHeader: codec.ConsumerGroupRequestHeader{},
		respBody: body.ConsumerConnection{}},
	codec.ReqGetProducerConnectionList: {reqHeader: codec.ProducerGroupRequestHeader{},
		respBody: body.ProducerConnection{}},
	codec.ReqWipeWritePermOfBroker: {reqHeader: codec.BrokerNameRequestHeader{},
		respHeader: codec.WipeWritePermOfBrokerResponseHeader{}},
	codec.ReqAddWritePermOfBroker: {reqHeader: codec.BrokerNameRequestHeader{},
		respHeader: codec.AddWritePermOfBrokerResponseHeader{}},
	codec.ReqGetAllTopicListFromNameserver: {respBody: body.TopicList{}},
	codec.ReqDeleteSubscriptionGroup:       {reqHeader: codec.DeleteSubscriptionGroupRequestHeader{}},
	codec.ReqGetConsumeStats: {reqHeader: codec.GetConsumeStatsRequestHeader{},
		respBody: body.ConsumeStats{}},
	codec.ReqDeleteTopicInBroker:    {reqHeader: codec.TopicRequestHeader{}},
	codec.ReqDeleteTopicInNamesrv:   {reqHeader: codec.DeleteTopicInNamesrvRequestHeader{}},
	codec.ReqRegisterTopicInNamesrv: {reqHeader: codec.TopicRequestHeader{}, reqBody: body.TopicRouteData{}},
	codec.ReqResetConsumerClientOffset: {reqHeader: codec.ResetOffsetRequestHeader{},
		reqBody: body.ResetOffsetBody{}},
	codec.ReqGetConsumerStatusFromClient: {reqHeader: codec.GetConsumerStatusRequestHeader{},
		respBody: body.GetConsumerStatusBody{}},
	codec.ReqInvokeBrokerToResetOffset: {reqHeader: codec.ResetOffsetRequestHeader{},
		respBody: body.ResetOffsetBody{}},
	codec.ReqInvokeBrokerToGetConsumerStatus: {reqHeader: codec.GetConsumerStatusRequestHeader{},
		respBody: body.GetConsumerStatusBody{}},
	codec.ReqGetTopicsByCluster: {reqHeader: codec.GetTopicsByClusterRequestHeader{},
		respBody: body.TopicList{}},
	codec.ReqQueryTopicConsumeByWho: {reqHeader: codec.TopicRequestHeader{}, respBody: body.GroupList{}},
	codec.ReqQueryConsumeTimeSpan: {reqHeader: codec.QueryConsumeTimeSpanRequestHeader{},
		respBody: body.QueryConsumeTimeSpanBody{}},
	codec.ReqGetSystemTopicListFromNS:     {respBody: body.TopicList{}},
	codec.ReqGetSystemTopicListFromBroker: {respBody: body.TopicList{}},
	codec.ReqGetConsumerRunningInfo: {reqHeader: codec.GetConsumerRunningInfoRequestHeader{},
		respBody: body.ConsumerRunningInfo{}},
	codec.ReqQueryCorrectionOffset: {reqHeader: codec.QueryCorrectionOffsetRequestHeader{},
		respBody: body.QueryCorrectionOffsetBody{}},
	codec.ReqConsumeMessageDirectly: {reqHeader: codec.ConsumeMessageDirectlyRequestHeader{},
		respBody: body.ConsumeMessageDirectlyResult{}},
	codec.ReqGetUnitTopicList:             {respBody: body.TopicList{}},
	codec.ReqGetHasUnitSubTopicList:       {respBody: body.TopicList{}},
	codec.ReqGetHasUnitSubUnunitTopicList: {respBody: body.TopicList{}},
	codec.ReqCloneGroupOffset:             {reqHeader: codec.CloneGroupOffsetRequestHeader{}},
	codec.ReqViewBrokerStatsData: {reqHeader: codec.ViewBrokerStatsDataRequestHeader{},
		respBody: body.BrokerStatsData{}},
	codec.ReqGetBrokerConsumeStats: {reqHeader: codec.GetBrokerConsumeStatsRequestHeader{},
		respBody: body.ConsumeStatsList{}},
	codec.ReqQueryConsumeQueue: {reqHeader: codec.QueryConsumeQueueRequestHeader{},
		respBody: body.QueryConsumeQueueResponseBody{}},
	codec.ReqQueryDataVersion: {reqHeader: codec.QueryDataVersionRequestHeader{}, reqBody: body.DataVersion{},
		respHeader: codec.QueryDataVersionResponseHeader{}, respBody: body.DataVersion{}},
	codec.ReqResumeCheckHalfMessage:   {reqHeader: codec.ResumeCheckHalfMessageRequestHeader{}},
	codec.ReqPushReplyMessageToClient: {reqHeader: codec.ReplyMessageRequestHeader{}},
	codec.ReqGetAllProducerInfo:       {respBody: body.ProducerTableInfo{}},
	codec.ReqQueryTopicsByConsumer:    {reqHeader: codec.GroupRequestHeader{}, respBody: body.TopicList{}},
	codec.ReqQuerySubscriptionByConsumer: {reqHeader: codec.QuerySubscriptionByConsumerRequestHeader{},
		respBody: body.QuerySubscriptionResponseBody{}},
	codec.ReqGetTopicConfig: {reqHeader: codec.TopicRequestHeader{},
		respBody: body.TopicConfigAndQueueMapping{}},
	codec.ReqGetSubscriptionGroupConfig: {reqHeader: codec.GroupRequestHeader{},
		respBody: body.SubscriptionGroupConfig{}},
	codec.ReqUpdateAndGetGroupForbidden: {reqHeader: codec.UpdateGroupForbiddenRequestHeader{},
		respBody: body.GroupForbidden{}},
	codec.ReqRecallMessage: {reqHeader: codec.RecallMessageRequestHeader{},
		respHeader: codec.RecallMessageResponseHeader{}},
	codec.ReqQueryAssignment: {reqBody: body.QueryAssignmentRequestBody{},
		respBody: body.QueryAssignmentResponseBody{}},
	codec.ReqSetMessageRequestMode:    {reqBody: body.SetMessageRequestModeRequestBody{}},
	codec.ReqGetAllMessageRequestMode: {respBody: body.MessageRequestModeSerializeWrapper{}},
	codec.ReqGetBrokerMemberGroup: {reqHeader: codec.GetBrokerMemberGroupRequestHeader{},
		respBody: body.GetBrokerMemberGroupResponseBody{}},
	codec.ReqBrokerHeartbeat:         {reqHeader: codec.BrokerHeartbeatRequestHeader{}},
	codec.ReqNotifyMinBrokerIDChange: {reqHeader: codec.NotifyMinBrokerIDChangeRequestHeader{}},
	codec.ReqExchangeBrokerHAInfo: {reqHeader: codec.ExchangeHAInfoHeader{},
		respHeader: codec.ExchangeHAInfoHeader{}},
	codec.ReqGetBrokerHAStatus:      {respBody: body.HARuntimeInfo{}},
	codec.ReqResetMasterFlushOffset: {reqHeader: codec.ResetMasterFlushOffsetRequestHeader{}},
	codec.ReqGetBrokerEpochCache:    {respBody: body.EpochEntryCache{}},
	codec.ReqNotifyBrokerRoleChanged: {reqHeader: codec.NotifyBrokerRoleChangedRequestHeader{},
		reqBody: body.SyncStateSet{}},
	codec.ReqControllerAlterSyncStateSet: {reqHeader: codec.AlterSyncStateSetRequestHeader{},
		reqBody:    body.SyncStateSet{},
		respHeader: codec.AlterSyncStateSetResponseHeader{}, respBody: body.SyncStateSet{}},
	codec.ReqControllerElectMaster: {reqHeader: codec.ElectMasterRequestHeader{},
		respHeader: codec.ElectMasterResponseHeader{}, respBody: body.ElectMasterResponseBody{}},
	codec.ReqControllerRegisterBroker: {reqHeader: codec.RegisterBrokerToControllerRequestHeader{},
		respHeader: codec.RegisterBrokerToControllerResponseHeader{}, respBody: body.SyncStateSet{}},
	codec.ReqControllerGetReplicaInfo: {reqHeader: codec.GetReplicaInfoRequestHeader{},
		respHeader: codec.GetReplicaInfoResponseHeader{}, respBody: body.SyncStateSet{}},
	codec.ReqControllerGetMetadataInfo:  {respHeader: codec.GetMetadataResponseHeader{}},
	codec.ReqControllerGetSyncStateData: {reqBody: []string{}, respBody: body.BrokerReplicasInfo{}},
	codec.ReqCleanBrokerData:            {reqHeader: codec.CleanBrokerDataRequestHeader{}},
	codec.ReqControllerGetNextBrokerID: {reqHeader: codec.GetNextBrokerIDRequestHeader{},
		respHeader: codec.GetNextBrokerIDResponseHeader{}},
	codec.ReqControllerApplyBrokerID: {reqHeader: codec.ApplyBrokerIDRequestHeader{},
		respHeader: codec.ApplyBrokerIDResponseHeader{}},
	codec.ReqAuthCreateUser: {reqHeader: codec.UserRequestHeader{}, reqBody: body.UserInfo{}},
	codec.ReqAuthUpdateUser: {reqHeader: codec.UserRequestHeader{}, reqBody: body.UserInfo{}},
	codec.ReqAuthDeleteUser: {reqHeader: codec.UserRequestHeader{}},
	codec.ReqAuthGetUser:    {reqHeader: codec.UserRequestHeader{}, respBody: body.UserInfo{}},
	codec.ReqAuthListUser:   {reqHeader: codec.ListUsersRequestHeader{}, respBody: []body.UserInfo{}},
	codec.ReqAuthCreateACL:  {reqHeader: codec.ACLRequestHeader{}, reqBody: body.ACLInfo{}},
	codec.ReqAuthUpdateACL:  {reqHeader: codec.ACLRequestHeader{}, reqBody: body.ACLInfo{}},
	codec.ReqAuthDeleteACL:  {reqHeader: codec.ACLRequestHeader{}},
	codec.ReqAuthGetACL:     {reqHeader: codec.ACLRequestHeader{}, respBody: body.ACLInfo{}},
	codec.ReqAuthListACL:    {reqHeader: codec.ListACLsRequestHeader{}, respBody: []body.ACLInfo{}},
	codec.ReqPopMessage: {reqHeader: codec.PopMessageRequestHeader{},
		respHeader: codec.PopMessageResponseHeader{}},
	codec.ReqPeekMessage: {reqHeader: codec.PeekMessageRequestHeader{},
		respHeader: codec.PopMessageResponseHeader{}},
	codec.ReqAckMessage:      {reqHeader: codec.AckMessageRequestHeader{}},
	codec.ReqBatchAckMessage: {reqBody: body.BatchAckMessageRequestBody{}},
	codec.ReqChangeMessageInvisibleTime: {reqHeader: codec.ChangeInvisibleTimeRequestHeader{},
		respHeader: codec.ChangeInvisibleTimeResponseHeader{}},
	codec.ReqNotification: {reqHeader: codec.NotificationRequestHeader{},
		respHeader: codec.NotificationResponseHeader{}},
	codec.ReqPollingInfo: {reqHeader: codec.PollingInfoRequestHeader{},
		respHeader: codec.PollingInfoResponseHeader{}},
	codec.ReqSendMessage:        {respHeader: codec.SendMessageResponseHeader{}},
	codec.ReqSendMessageV2:      {respHeader: codec.SendMessageResponseHeader{}},
	codec.ReqSendBatchMessage:   {respHeader: codec.SendMessageResponseHeader{}},
	codec.ReqSendReplyMessage:   {respHeader: codec.SendMessageResponseHeader{}},
	codec.ReqSendReplyMessageV2: {respHeader: codec.SendMessageResponseHeader{}},
	codec.ReqPullMessage:        {respHeader: codec.PullMessageResponseHeader{}},
	codec.ReqLitePullMessage:    {respHeader: codec.PullMessageResponseHeader{}},
}

var goldenName = regexp.MustCompile(`^(\d+)-.*-(req|resp)(-.*)?\.bin$`)

// TestGoldenFrames decodes every captured frame and compares what the encoders make of it: the frame byte for
// byte, header and body field by field.
func TestGoldenFrames(t *testing.T) {
	files, err := filepath.Glob("../testdata/wire/*/*.bin")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := goldenName.FindStringSubmatch(filepath.Base(file))
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "../testdata/wire/"), ".bin"), func(t *testing.T) {
			require.NotNil(t, name)
			code, err := strconv.Atoi(name[1])
			require.NoError(t, err)
			frame, err := os.ReadFile(file)
			require.NoError(t, err)
			testGoldenFrame(t, frame, code, name[2] == "req")
		})
	}
}

func testGoldenFrame(t *testing.T, frame []byte, code int, request bool) {
	f, n, _, err := codec.SplitFrame(frame, codec.MaxFrameBytes)
	require.NoError(t, err)
	require.Equal(t, len(frame), n)
	var c codec.Command
	require.NoError(t, c.Decode(f))
	require.Equal(t, !request, c.IsResponse())
	requireSameFrame(t, &c, frame)

	require.NotEqual(t, strconv.Itoa(code), codec.RequestCodeName(code), "unknown code")
	s := shapes[code]
	if request {
		require.Equal(t, code, codec.NormalizeRequestCode(c.Code))
		if isSendOrPull(code) {
			requireSendOrPull(t, &c)
			return
		}
		requireSameHeader(t, &c, s.reqHeader)
		requireSameBody(t, c.Body, s.reqBody, &c)
		return
	}
	if c.Code == codec.RespSuccess {
		requireSameHeader(t, &c, s.respHeader)
		requireSameBody(t, c.Body, s.respBody, &c)
	}
}

// requireSameFrame encodes c again. Headers of Java come out byte for byte, but for empty members that we do
// not write. Other SDKs order the members of a JSON header differently, so there the commands are compared.
func requireSameFrame(t *testing.T, c *codec.Command, frame []byte) {
	again := c.AppendTo(nil)
	header := frame[8 : len(frame)-len(c.Body)]
	if bytes.Contains(header, []byte(`"serializeTypeCurrentRPC":"JSON","version":`)) {
		header = bytes.Replace(header, []byte(`,"extFields":{}`), nil, 1)
		header = bytes.Replace(header, []byte(`,"remark":""`), nil, 1)
		require.Equal(t, string(header), string(again[8:len(again)-len(c.Body)]))
	}
	f, _, _, err := codec.SplitFrame(again, codec.MaxFrameBytes)
	require.NoError(t, err)
	var d codec.Command
	require.NoError(t, d.Decode(f))
	require.Equal(t, c.String(), d.String())
	require.Equal(t, c.Body, d.Body)
}

func isSendOrPull(code int) bool {
	switch code {
	case codec.ReqSendMessage, codec.ReqSendMessageV2, codec.ReqSendBatchMessage, codec.ReqSendReplyMessage,
		codec.ReqSendReplyMessageV2, codec.ReqPullMessage, codec.ReqLitePullMessage:
		return true
	}
	return false
}

func requireSendOrPull(t *testing.T, c *codec.Command) {
	d := &codec.Command{Code: c.Code}
	if c.Code == codec.ReqPullMessage || c.Code == codec.ReqLitePullMessage {
		var h codec.PullMessageHeader
		require.NoError(t, h.Decode(c))
		h.Encode(d)
	} else {
		var h codec.SendMessageHeader
		require.NoError(t, h.Decode(c))
		h.Encode(d)
		if c.Code == codec.ReqSendBatchMessage {
			n, err := codec.CountBatch(c.Body)
			require.NoError(t, err)
			require.Positive(t, n)
		}
	}
	requireFields(t, c, d)
}

func requireSameHeader(t *testing.T, c *codec.Command, prototype any) {
	if prototype == nil {
		return
	}
	h := reflect.New(reflect.TypeOf(prototype))
	require.NoError(t, codec.DecodeHeader(c, h.Interface()))
	d := &codec.Command{}
	codec.EncodeHeader(d, h.Interface())
	requireFields(t, c, d)
}

// notInHeaders are the fields that go beside a header: see codec.Ext….
var notInHeaders = map[string]bool{codec.PropMsgRegion: true, codec.PropTraceSwitch: true,
	codec.ExtUniqueKeyQuery: true,
	codec.ExtZoneName:       true, codec.ExtZoneMode: true, codec.ExtSupportHeartbeatV2: true,
	codec.ExtSubscriptionChanged: true, codec.ExtAccessKey: true, codec.ExtSignature: true,
	"defaultTopicQueueNums": true, "ReqT": true}

// requireFields checks that d has each field of c, and what it adds is a default.
func requireFields(t *testing.T, c, d *codec.Command) {
	for i := range c.Fields {
		f := &c.Fields[i]
		if notInHeaders[string(f.Key)] && d.Lookup(string(f.Key)) == nil {
			continue
		}
		got := d.Lookup(string(f.Key))
		if f.Text() == "" && got == nil {
			continue
		}
		require.NotNil(t, got, "field %s is lost", f.Key)
		require.Equal(t, f.Text(), got.Text(), "field %s", f.Key)
	}
	for i := range d.Fields {
		f := &d.Fields[i]
		if c.Lookup(string(f.Key)) == nil {
			require.Contains(t, []string{"0", "false", "true", "-1", ""}, f.Text(), "field %s is invented", f.Key)
		}
	}
}

func requireSameBody(t *testing.T, data []byte, prototype any, c *codec.Command) {
	if prototype == nil || len(data) == 0 {
		return
	}
	ptr := reflect.New(reflect.TypeOf(prototype))
	if _, ok := prototype.(body.RegisterBrokerBody); ok {
		b, err := body.DecodeRegisterBrokerBody(data, c.Get("compressed") == "true", c.Version)
		require.NoError(t, err)
		ptr = reflect.ValueOf(b)
		if data[0] != '{' {
			return
		}
	} else {
		require.NoError(t, body.Decode(data, ptr.Interface()))
	}
	again, err := body.Encode(ptr.Interface())
	require.NoError(t, err)
	want, err := fastjson.Parse(data)
	require.NoError(t, err)
	got, err := fastjson.Parse(again)
	require.NoError(t, err)
	requireCovers(t, "$", want, got, c.Version >= codec.Version500)
}

// derived are members that Java computes from others and that our structs leave out.
var derived = map[string]bool{"minTimeStampStr": true, "maxTimeStampStr": true, "consumeTimeStampStr": true,
	"groupTopicMap": true}

// requireCovers checks that got has all that want has and, if exact, nothing else. Older senders lack members
// that we then have with their defaults.
func requireCovers(t *testing.T, path string, want, got *fastjson.Value, exact bool) {
	switch want.Kind() {
	case fastjson.Object:
		require.Equal(t, fastjson.Object, got.Kind(), path)
		for _, m := range want.Members() {
			key := m.Key.String()
			if derived[m.Key.Text()] || m.Val.IsNull() {
				continue
			}
			found := false
			for _, g := range got.Members() {
				if sameKey(&m.Key, &g.Key) {
					found = true
					requireCovers(t, path+"."+key, &m.Val, &g.Val, exact)
				}
			}
			require.True(t, found, "%s.%s is lost", path, key)
		}
		if exact {
			requireNothingInvented(t, path, want, got)
		}
	case fastjson.Array:
		require.Equal(t, want.Len(), got.Len(), path)
		for i := range want.Items() {
			requireCovers(t, fmt.Sprintf("%s[%d]", path, i), &want.Items()[i], &got.Items()[i], exact)
		}
	default:
		require.Equal(t, want.String(), got.String(), path)
	}
}

// requireNothingInvented checks that members of got that want lacks say nothing: they are empty.
func requireNothingInvented(t *testing.T, path string, want, got *fastjson.Value) {
	for _, g := range got.Members() {
		if want.Get(g.Key.Text()) == nil && g.Key.Kind() == fastjson.String {
			require.Contains(t, []string{"{}", "[]", "0", "0.0", "false",
				`{"counter":0,"stateVersion":0,"timestamp":0}`},
				g.Val.String(), "%s.%s is invented", path, g.Key.Text())
		}
	}
}

func sameKey(a, b *fastjson.Value) bool {
	if a.Kind() == fastjson.Object || a.Kind() == fastjson.Array {
		return a.String() == b.String()
	}
	return a.Text() == b.Text()
}
