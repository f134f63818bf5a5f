package codec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestValidateTopic is case B07 at the validators; the remarks are Java's (TopicValidator).
func TestValidateTopic(t *testing.T) {
	f := func(topic, want string) {
		t.Helper()
		err := ValidateTopic(topic)
		if want == "" {
			require.NoError(t, err)
			return
		}
		var ne *NameError
		require.ErrorAs(t, err, &ne)
		require.Equal(t, want, ne.Remark)
	}
	illegal := func(topic string) string {
		return "The specified topic: " + topic + ", contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
	}
	x := strings.Repeat
	f("T", "")
	f(x("t", 127), "")
	f(x("t", 128), "The specified topic: "+x("t", 128)+", is longer than topic max length: 127")
	f("%RETRY%"+x("g", 248), "")
	f("%DLQ%"+x("g", 251), "The specified topic is DLQ or Retry topic: %DLQ%"+x("g", 251)+
		", and it's longer than topic max length: 255")
	f("", "The specified topic is blank.")
	f(" \t ", "The specified topic is blank.")
	f("ns%topic|a-b_C9", "")
	for _, topic := range []string{"a.b", "../../x", "a/b", "a\\b", "tôpic", "中", "a\x00b", "a b", "a+b",
		"a\n"} {
		f(topic, illegal(topic))
	}
}

func TestValidateGroup(t *testing.T) {
	f := func(group, want string) {
		t.Helper()
		if want == "" {
			require.NoError(t, ValidateGroup(group))
			return
		}
		require.EqualError(t, ValidateGroup(group), want)
	}
	x := strings.Repeat
	f(x("g", 120), "")
	f(x("g", 121), "The specified group: "+x("g", 121)+", is longer than group max length: 120")
	f("", "The specified group is blank.")
	f("a.b", "The specified group: a.b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")
	require.LessOrEqual(t, len(RetryTopic(x("g", MaxGroupLength))), MaxTopicLength,
		"the retry topic of any valid group can be stored")
}

func TestRetryNames(t *testing.T) {
	require.Equal(t, "%RETRY%g", RetryTopic("g"))
	require.Equal(t, "%DLQ%g", DLQTopic("g"))
	require.Equal(t, "%RETRY%g_T", PopRetryTopicV1("T", "g"))
	require.Equal(t, "%RETRY%g+T", PopRetryTopicV2("T", "g"))
	require.True(t, IsPopRetryTopicV2("%RETRY%g+T"))
	require.False(t, IsPopRetryTopicV2("%RETRY%g_T"))
	require.False(t, IsPopRetryTopicV2("g+T"))
	require.Equal(t, "T", NormalTopicOf("%RETRY%g+T", "g"))
	require.Equal(t, "T", NormalTopicOf("%RETRY%g_T", "g"))
	require.Equal(t, "%RETRY%g", NormalTopicOf("%RETRY%g", "g"))
	require.Equal(t, "%RETRY%other_T", NormalTopicOf("%RETRY%other_T", "g"))
	require.Equal(t, "T", NormalTopicOf("T", "g"))
	require.Equal(t, "g", GroupOfRetryTopic("%RETRY%g"))
	require.Equal(t, "g", GroupOfRetryTopic("%RETRY%g+T"))
	require.Equal(t, "g_T", GroupOfRetryTopic("%RETRY%g_T"))
	require.Equal(t, "T", GroupOfRetryTopic("T"))
	require.True(t, IsRetryTopic("%RETRY%g"))
	require.True(t, IsDLQTopic("%DLQ%g"))
	require.True(t, IsLMQ("%LMQ%q"))
	require.Equal(t, "rmq_sys_REVIVE_LOG_c", ReviveTopic("c"))
	require.Equal(t, "c_REPLY_TOPIC", ReplyTopic("c"))
	require.Equal(t, "rmq_sys_SYNC_BROKER_MEMBER_b", SyncBrokerMemberTopic("b"))
}

func TestSystemNames(t *testing.T) {
	for _, topic := range []string{AutoCreateTopicKey, ScheduleTopic, BenchmarkTopic, HalfTopic, OpHalfTopic,
		TransCheckMaxTimeTopic, TraceTopic, SelfTestTopic, OffsetMovedEventTopic, RocksDBOffsetTopic, TimerTopic,
		ReviveTopic("c")} {
		require.True(t, IsSystemTopic(topic), topic)
	}
	require.False(t, IsSystemTopic("T"))
	require.True(t, IsSendForbidden(HalfTopic))
	require.True(t, IsSendForbidden(ScheduleTopic))
	require.False(t, IsSendForbidden(BenchmarkTopic))
	require.False(t, IsSendForbidden(AutoCreateTopicKey))
	require.True(t, IsSystemGroup(TransGroup))
	require.False(t, IsSystemGroup(ToolsConsumerGroup))
	require.True(t, IsPredefinedGroup(ToolsConsumerGroup))
	require.False(t, IsPredefinedGroup("g"))
}

func TestCodeNames(t *testing.T) {
	require.Equal(t, "SEND_MESSAGE_V2", RequestCodeName(ReqSendMessageV2))
	require.Equal(t, "GET_ROUTEINFO_BY_TOPIC", RequestCodeName(105))
	require.Equal(t, "12345", RequestCodeName(12345))
	require.Equal(t, "PULL_OFFSET_MOVED", ResponseCodeName(RespPullOffsetMoved))
	require.Equal(t, "RPC_TIME_OUT", ResponseCodeName(-1006))
	require.Equal(t, "999", ResponseCodeName(999))
}

// TestVersionNames are the ordinals of spec wire.md §4.
func TestVersionNames(t *testing.T) {
	f := func(ordinal int, want string) {
		t.Helper()
		require.Equal(t, want, VersionName(ordinal))
	}
	f(0, "V3_0_0_SNAPSHOT")
	f(15, "V3_0_0_FINAL")
	f(16, "V3_0_1_SNAPSHOT")
	f(Version307Snapshot, "V3_0_7_SNAPSHOT")
	f(Version3011, "V3_0_11")
	f(Version318Snapshot, "V3_1_8_SNAPSHOT")
	f(Version349, "V3_4_9")
	f(Version410Snapshot, "V4_1_0_SNAPSHOT")
	f(317, "V4_5_2")
	f(Version493, "V4_9_3")
	f(Version494, "V4_9_4")
	f(Version498, "V4_9_8")
	f(Version500, "V5_0_0")
	f(Version531, "V5_3_1")
	f(Version533, "V5_3_3")
	f(611, "V5_9_9")
	f(612, "HIGHER_VERSION")
	f(32767, "HIGHER_VERSION")
	f(-1, "HIGHER_VERSION")
}

func TestLanguageText(t *testing.T) {
	text, err := LanguageGo.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "GO", string(text))
	var l LanguageCode
	require.NoError(t, l.UnmarshalText([]byte("RUST")))
	require.Equal(t, LanguageRust, l)
	require.NoError(t, l.UnmarshalText([]byte("256")))
	require.Equal(t, LanguageOther, l)
}

func TestPermString(t *testing.T) {
	require.Equal(t, "RW-", PermString(PermRead|PermWrite))
	require.Equal(t, "--X", PermString(PermInherit|PermPriority))
}
