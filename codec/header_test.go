package codec

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// allHeaders is every header struct that is bound by tags.
var allHeaders = []any{
	RPCHeader{}, TopicHeader{}, TopicRequestHeader{}, TopicQueueRequestHeader{}, OffsetResponseHeader{},
	QueryConsumerOffsetRequestHeader{}, UpdateConsumerOffsetRequestHeader{}, SearchOffsetRequestHeader{},
	GetMaxOffsetRequestHeader{}, GetEarliestMsgStoreTimeResponseHeader{}, UnregisterClientRequestHeader{},
	ConsumerGroupRequestHeader{}, QueryMessageRequestHeader{}, QueryMessageResponseHeader{},
	ViewMessageRequestHeader{}, QueryConsumeQueueRequestHeader{}, ConsumerSendMsgBackRequestHeader{},
	EndTransactionRequestHeader{}, CheckTransactionStateRequestHeader{}, ResumeCheckHalfMessageRequestHeader{},
	RecallMessageRequestHeader{}, RecallMessageResponseHeader{}, PopMessageRequestHeader{},
	PopMessageResponseHeader{}, AckMessageRequestHeader{}, ChangeInvisibleTimeRequestHeader{},
	ChangeInvisibleTimeResponseHeader{}, PeekMessageRequestHeader{}, NotificationRequestHeader{},
	NotificationResponseHeader{}, PollingInfoRequestHeader{}, PollingInfoResponseHeader{},
	ResetOffsetRequestHeader{}, GetConsumerStatusRequestHeader{}, GetConsumerRunningInfoRequestHeader{},
	ConsumeMessageDirectlyRequestHeader{}, ReplyMessageRequestHeader{}, KVConfigRequestHeader{},
	PutKVConfigRequestHeader{}, GetKVConfigResponseHeader{}, GetKVListByNamespaceRequestHeader{},
	RegisterBrokerRequestHeader{}, RegisterBrokerResponseHeader{}, UnregisterBrokerRequestHeader{},
	QueryDataVersionRequestHeader{}, QueryDataVersionResponseHeader{}, GetRouteInfoRequestHeader{},
	BrokerNameRequestHeader{}, WipeWritePermOfBrokerResponseHeader{}, AddWritePermOfBrokerResponseHeader{},
	DeleteTopicInNamesrvRequestHeader{}, GetTopicsByClusterRequestHeader{}, BrokerHeartbeatRequestHeader{},
	GetBrokerMemberGroupRequestHeader{}, NotifyMinBrokerIDChangeRequestHeader{}, ExchangeHAInfoHeader{},
	ResetMasterFlushOffsetRequestHeader{}, AddBrokerRequestHeader{}, RemoveBrokerRequestHeader{},
	NotifyBrokerRoleChangedRequestHeader{}, AlterSyncStateSetRequestHeader{}, AlterSyncStateSetResponseHeader{},
	ElectMasterRequestHeader{}, ElectMasterResponseHeader{}, RegisterBrokerToControllerRequestHeader{},
	RegisterBrokerToControllerResponseHeader{}, GetReplicaInfoRequestHeader{}, GetReplicaInfoResponseHeader{},
	GetMetadataResponseHeader{}, CleanBrokerDataRequestHeader{}, GetNextBrokerIDRequestHeader{},
	GetNextBrokerIDResponseHeader{}, ApplyBrokerIDRequestHeader{}, ApplyBrokerIDResponseHeader{},
	CreateTopicRequestHeader{}, GetAllTopicConfigRequestHeader{}, GetAllTopicConfigResponseHeader{},
	GetAllSubscriptionGroupRequestHeader{}, GetAllSubscriptionGroupResponseHeader{}, GroupRequestHeader{},
	UpdateGroupForbiddenRequestHeader{}, DeleteSubscriptionGroupRequestHeader{},
	QuerySubscriptionByConsumerRequestHeader{}, CloneGroupOffsetRequestHeader{},
	QueryCorrectionOffsetRequestHeader{}, ProducerGroupRequestHeader{}, GetConsumeStatsRequestHeader{},
	GetBrokerConsumeStatsRequestHeader{}, QueryConsumeTimeSpanRequestHeader{},
	ViewBrokerStatsDataRequestHeader{},
	GetBrokerConfigResponseHeader{}, CheckRocksDBCQWriteProgressRequestHeader{},
	ExportRocksDBConfigRequestHeader{}, UserRequestHeader{}, ListUsersRequestHeader{}, ACLRequestHeader{},
	ListACLsRequestHeader{}, CreateAccessConfigRequestHeader{}, DeleteAccessConfigRequestHeader{},
	GetBrokerACLInfoResponseHeader{}, UpdateGlobalWhiteAddrsRequestHeader{}, SendMessageResponseHeader{},
	PullMessageResponseHeader{},
}

// fillHeader gives every bound field a value of its own.
func fillHeader(v reflect.Value, n *int) {
	for i := range v.NumField() {
		f := v.Field(i)
		*n++
		if f.Kind() == reflect.Pointer {
			f.Set(reflect.New(f.Type().Elem()))
			f = f.Elem()
		}
		switch f.Kind() {
		case reflect.Struct:
			fillHeader(f, n)
		case reflect.String:
			f.SetString(fmt.Sprintf("text %d\x01\"ü", *n))
		case reflect.Bool:
			f.SetBool(true)
		default:
			f.SetInt(int64(*n))
		}
	}
}

func TestHeadersRoundTrip(t *testing.T) {
	for _, prototype := range allHeaders {
		for _, typ := range []SerializeType{SerializeJSON, SerializeROCKETMQ} {
			want := reflect.New(reflect.TypeOf(prototype))
			n := 0
			fillHeader(want.Elem(), &n)
			c := &Command{Type: typ}
			EncodeHeader(c, want.Interface())
			require.Len(t, c.Fields, len(headerPlan(want.Type().Elem())))
			got := reflect.New(want.Type().Elem())
			require.NoError(t, DecodeHeader(reparse(t, c), got.Interface()))
			require.Equal(t, want.Interface(), got.Interface())
		}
	}
}

// TestHeadersNameWhatIsMissing is case B03 (a): a request without fields is refused with the first required
// one.
func TestHeadersNameWhatIsMissing(t *testing.T) {
	for _, prototype := range allHeaders {
		plan := headerPlan(reflect.TypeOf(prototype))
		first := ""
		for _, f := range plan {
			if f.required {
				first = f.name
				break
			}
		}
		err := DecodeHeader(&Command{}, reflect.New(reflect.TypeOf(prototype)).Interface())
		if first == "" {
			require.NoError(t, err, "%T", prototype)
			continue
		}
		var he *HeaderError
		require.ErrorAs(t, err, &he, "%T", prototype)
		require.Equal(t, first, he.Field, "%T", prototype)
		require.Contains(t, err.Error(), first)
	}
}

// TestHeaderBadNumbers is case B03 (e).
func TestHeaderBadNumbers(t *testing.T) {
	f := func(value, want string) {
		t.Helper()
		c := &Command{}
		c.Set("topic", "T")
		c.Set("queueId", value)
		c.Set("timestamp", value)
		err := DecodeHeader(c, &SearchOffsetRequestHeader{})
		var he *HeaderError
		require.ErrorAs(t, err, &he)
		require.Equal(t, HeaderError{Field: want, Value: value, Want: he.Want}, *he)
		require.Contains(t, err.Error(), want)
	}
	f("12x", "queueId")
	f("", "queueId")
	f("99999999999999999999", "queueId")
	f("2147483648", "queueId")
	f("1.5", "queueId")

	c := &Command{}
	c.Set("topic", "T")
	c.Set("queueId", "1")
	c.Set("timestamp", "9223372036854775808")
	require.EqualError(t, DecodeHeader(c, &SearchOffsetRequestHeader{}),
		`the header field "timestamp" has the value "9223372036854775808", which is no int64`)
}

// TestMisspeltField is case B03 (c).
func TestMisspeltField(t *testing.T) {
	c := &Command{}
	c.Set("topic", "T")
	c.Set("key", "k")
	c.Set("maxNum", "1")
	c.Set("begin", "0")
	c.Set("end", "1")
	require.EqualError(t, DecodeHeader(c, &QueryMessageRequestHeader{}),
		`the header field "beginTimestamp" is missing`)
}

func TestHeaderDefaults(t *testing.T) {
	c := &Command{}
	c.Set("topic", "T")
	c.Set("queueId", "1")
	var h GetMaxOffsetRequestHeader
	require.NoError(t, DecodeHeader(c, &h))
	require.True(t, h.Committed)
	c.Set("committed", "FALSE")
	require.NoError(t, DecodeHeader(c, &h))
	require.False(t, h.Committed)

	c = &Command{}
	for _, name := range []string{"topic", "group", "isForce"} {
		c.Set(name, "x")
	}
	c.Set("timestamp", "-1")
	var r ResetOffsetRequestHeader
	require.NoError(t, DecodeHeader(c, &r))
	require.EqualValues(t, -1, r.QueueID)
	require.Nil(t, r.Offset)
	require.False(t, r.IsForce, "only true in any case is true")

	var e ElectMasterRequestHeader
	require.NoError(t, DecodeHeader(&Command{}, &e))
	require.EqualValues(t, -1, e.BrokerID)
}

func TestEncodeHeaderLeavesOutWhatIsAbsent(t *testing.T) {
	c := &Command{}
	EncodeHeader(c, CreateTopicRequestHeader{Topic: "T"})
	require.Nil(t, c.Lookup("topicSysFlag"))
	require.Nil(t, c.Lookup("attributes"))
	require.NotNil(t, c.Lookup("defaultTopic"), "required fields are written even when empty")
	require.Equal(t, "false", c.Get("force"))
	require.Equal(t, "0", c.Get("perm"))
}

func TestBoundaryType(t *testing.T) {
	require.True(t, (&SearchOffsetRequestHeader{BoundaryType: "upper"}).Upper())
	require.True(t, (&SearchOffsetRequestHeader{BoundaryType: BoundaryUpper}).Upper())
	require.False(t, (&SearchOffsetRequestHeader{BoundaryType: "x"}).Upper())
	require.False(t, (&SearchOffsetRequestHeader{}).Upper())
}
