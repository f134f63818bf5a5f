package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec"
	"skylark/codec/body"
	"skylark/internal/vfs"
)

// pullSQL pulls with a condition in the request.
func (p *peer) pullSQL(condition string) *codec.Command {
	p.t.Helper()
	return p.do(pullWith("g", "T", 0, 0, func(h *codec.PullMessageHeader) {
		h.Subscription, h.ExpressionType = []byte(condition), []byte("SQL92")
	}))
}

// checkConfig asks whether a subscription can be used.
func (p *peer) checkConfig(condition string) *codec.Command {
	p.t.Helper()
	data, err := body.Encode(&body.CheckClientRequestBody{ClientID: "c1", Group: "g",
		SubscriptionData: &body.SubscriptionData{Topic: "T", SubString: condition, ExpressionType: "SQL92"}})
	require.NoError(p.t, err)
	return p.call(codec.ReqCheckClientConfig, nil, data)
}

// Case B13 (a): without enablePropertyFilter a condition is refused by every door, with the reason.
func TestFilterNotEnabled(t *testing.T) {
	b := startBroker(t, "")
	b.mustSend("T", 0, "", "m")
	b.waitQueue("T", 0, 1)
	const reason = "The broker does not support consumer to filter message by SQL92"
	f := func(answer *codec.Command) {
		t.Helper()
		require.Equal(t, codec.RespSystemError, answer.Code)
		require.Equal(t, reason, answer.Remark)
	}
	f(b.pullSQL("a > 5"))
	f(b.checkConfig("a > 5"))
	b.beat("c1", consumer(t, "g", 1, "T a > 5"))
	f(b.do(pullWith("g", "T", 0, 0, func(h *codec.PullMessageHeader) { h.SysFlag, h.SubVersion = 0, 1 })))
	answer, _ := b.pull("T", 0, 0)
	require.Equal(t, codec.RespSuccess, answer.Code, "tags are not concerned")
}

// Case B13 (b), (c), (d): broken and odd conditions, and values they do not fit.
func TestFilterEdges(t *testing.T) {
	b := startBroker(t, "enablePropertyFilter=true\n")
	messages := map[string]string{"none": "", "a=3": "a\x013", "a=7": "a\x017", "a=abc": "a\x01abc",
		"a=max": "a\x019223372036854775807", "flag": "flag\x01true", "not flag": "flag\x01false",
		"quoted": "a\x01it's", "a=x": "a\x01x"}
	order := []string{"none", "a=3", "a=7", "a=abc", "a=max", "flag", "not flag", "quoted", "a=x"}
	for _, name := range order {
		b.mustSend("T", 0, messages[name], name)
	}
	b.waitQueue("T", 0, len(order))
	healthy := b.dial()
	healthy.beat("c2", consumer(t, "other", 1, "T a > 5"))
	f := func(condition string, want ...string) {
		t.Helper()
		require.Equal(t, codec.RespSuccess, b.checkConfig(condition).Code, condition)
		answer, h := b.pulled(b.pullSQL(condition))
		require.EqualValues(t, len(order), h.NextBeginOffset)
		if len(want) == 0 {
			require.Equal(t, codec.RespPullRetryImmediately, answer.Code, condition)
		} else {
			require.Equal(t, codec.RespSuccess, answer.Code, "%s: %s", condition, answer.Remark)
		}
		require.Equal(t, want, bodies(t, answer), condition)
		answer = healthy.do(pullWith("other", "T", 0, 0, func(h *codec.PullMessageHeader) {
			h.SysFlag, h.SubVersion = 0, 1
		}))
		require.Equal(t, []string{"a=7"}, bodies(t, answer), "nobody else is disturbed by %s", condition)
	}
	f("TRUE = flag", "flag")
	f("flag = TRUE", "flag")
	f("a > 5", "a=7") // Java compares with an Integer, which the largest one is not
	f("NOT (a > 5)", "a=3")
	f("a IS NULL", "none", "flag", "not flag")
	f("a IN ('x')", "a=x")
	f("a NOT IN ('x')", "a=3", "a=7", "a=abc", "a=max", "quoted")
	f("a = 9223372036854775807", "a=max")
	f("a = 'it''s'", "quoted")
	f("a between 0 and 3", "a=3")
	f("a = '9223372036854775807' OR "+strings.Repeat("a = 'no' OR ", 850)+"a = 'abc'", "a=abc", "a=max")

	broken := func(condition string) {
		t.Helper()
		require.Equal(t, codec.RespSubscriptionParseFailed, b.checkConfig(condition).Code, "%.60s", condition)
		answer := b.pullSQL(condition)
		require.Equal(t, codec.RespSubscriptionParseFailed, answer.Code, "%.60s", condition)
		require.NotEmpty(t, answer.Remark)
	}
	broken("a between 0 3")
	broken("a >")
	broken("")
	broken("a = 9223372036854775808")
	broken("a = 'open")
	broken("\x00")
	broken(strings.Repeat("(", 100000) + "a = 1" + strings.Repeat(")", 100000))
	f("a > 5", "a=7")
}

// Pulls without a subscription of their own use the group's heartbeat and its filter data: 27 and 28 if that
// cannot be.
func TestFilterByHeartbeat(t *testing.T) {
	b := startBroker(t, "enablePropertyFilter=true\n")
	for i := range 10 {
		b.mustSend("T", 0, fmt.Sprintf("a\x01%d", i), fmt.Sprint(i))
	}
	b.waitQueue("T", 0, 10)
	pull := func(version int64) *codec.Command {
		t.Helper()
		answer, _ := b.pulled(b.do(pullWith("g", "T", 0, 0, func(h *codec.PullMessageHeader) {
			h.SysFlag, h.SubVersion = 0, version
		})))
		return answer
	}
	b.beat("c1", consumer(t, "g", 1, "T a > 7"))
	require.Equal(t, []string{"8", "9"}, bodies(t, pull(1)))
	b.beat("c1", consumer(t, "g", 2, "T a > 8"))
	require.Equal(t, []string{"9"}, bodies(t, pull(2)))
	require.Equal(t, codec.RespSubscriptionNotLatest, pull(3).Code)

	broken := consumer(t, "g", 4, "T a > 8")
	broken.SubscriptionDataSet[0].SubString = "a >"
	b.beat("c1", broken)
	answer := pull(4)
	require.Equal(t, codec.RespFilterDataNotExist, answer.Code)
	require.Contains(t, answer.Remark,
		"The broker's consumer filter data is not exist!Your expression may be wrong!")

	b.beat("c1", consumer(t, "g", 5, "T a > 8"))
	require.Equal(t, []string{"9"}, bodies(t, pull(5)))
	b.filters.DeleteTopic("T")
	require.Equal(t, codec.RespFilterDataNotExist, pull(5).Code)
	answer = b.do(pullWith("g", "T", 0, 0, func(h *codec.PullMessageHeader) {
		h.Subscription, h.ExpressionType = []byte("a > 6"), []byte("SQL92")
	}))
	require.Equal(t, []string{"7", "8", "9"}, bodies(t, answer), "one that brings its own needs no filter data")
}

// A condition parks and wakes like tags do.
func TestFilterWakes(t *testing.T) {
	b := startBroker(t, "enablePropertyFilter=true\n")
	b.createTopic("T", 1, 6)
	pulled := b.begin(pullWith("g", "T", 0, 0, func(h *codec.PullMessageHeader) {
		h.SysFlag |= codec.PullFlagSuspend
		h.SuspendTimeoutMillis = maxSuspend.Milliseconds()
		h.Subscription, h.ExpressionType = []byte("a > 5"), []byte("SQL92")
	}))
	b.eventually(func() bool { return b.Parked() == 1 })
	b.mustSend("T", 0, "a\x014", "no")
	b.mustSend("T", 0, "", "no")
	b.mustSend("T", 0, "a\x016", "yes")
	require.Equal(t, []string{"yes"}, bodies(t, await(t, pulled)))
}

// Case B13 (e): an entry of consumerFilter.json without bloom data survives a restart, and so do those of the
// heartbeat.
func TestFilterDataSurvivesRestart(t *testing.T) {
	fsys := vfs.NewMem()
	require.NoError(t, vfs.MkdirAllSync(fsys, "/data/config"))
	const old = `{"filterDataByTopic":{"T":{"groupFilterData":{"old":{"bornTime":1600000000000,"clientVersion":7,
		"consumerGroup":"old","deadTime":0,"expression":"a > 3","expressionType":"SQL92","topic":"T"}},"topic":"T"}}}`
	require.NoError(t, vfs.WriteFileAtomic(fsys, "/data/config/consumerFilter.json", []byte(old), false))
	b := start(t, setup{fs: fsys, conf: "enablePropertyFilter=true\n"})
	b.beat("c1", consumer(t, "g", 1, "T a > 7"))
	for range 2 {
		for name, version := range map[string]int64{"old": 7, "g": 1} {
			data := b.filters.Lookup("T", name)
			require.NotNil(t, data, name)
			require.Equal(t, version, data.ClientVersion)
			require.NotNil(t, data.BloomFilterData, "%s has bits of its own", name)
		}
		b = b.restart()
	}
}
