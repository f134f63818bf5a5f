package body

import "time"

// SubscriptionGroupConfig is a consumer group of a broker (Java SubscriptionGroupConfig). 4.9 lacks
// Attributes, ConsumeMessageOrderly, ConsumeTimeoutMinute, GroupRetryPolicy, GroupSysFlag and
// SubscriptionDataSet.
type SubscriptionGroupConfig struct {
	Attributes                     map[string]string         `json:"attributes"`
	BrokerID                       int64                     `json:"brokerId"`
	ConsumeBroadcastEnable         bool                      `json:"consumeBroadcastEnable"`
	ConsumeEnable                  bool                      `json:"consumeEnable"`
	ConsumeFromMinEnable           bool                      `json:"consumeFromMinEnable"`
	ConsumeMessageOrderly          bool                      `json:"consumeMessageOrderly"`
	ConsumeTimeoutMinute           int32                     `json:"consumeTimeoutMinute"`
	GroupName                      string                    `json:"groupName,omitnull"`
	GroupRetryPolicy               *GroupRetryPolicy         `json:"groupRetryPolicy"`
	GroupSysFlag                   int32                     `json:"groupSysFlag"`
	NotifyConsumerIDsChangedEnable bool                      `json:"notifyConsumerIdsChangedEnable"`
	RetryMaxTimes                  int32                     `json:"retryMaxTimes"`
	RetryQueueNums                 int32                     `json:"retryQueueNums"`
	SubscriptionDataSet            []*SimpleSubscriptionData `json:"subscriptionDataSet,omitnull,set"`
	WhichBrokerWhenConsumeSlowly   int64                     `json:"whichBrokerWhenConsumeSlowly"`
}

// SetDefaults gives Java's defaults: everything enabled, 16 retries on 1 queue, 15 minutes.
func (c *SubscriptionGroupConfig) SetDefaults() {
	*c = SubscriptionGroupConfig{
		ConsumeBroadcastEnable:         true,
		ConsumeEnable:                  true,
		ConsumeFromMinEnable:           true,
		ConsumeTimeoutMinute:           15,
		GroupRetryPolicy:               &GroupRetryPolicy{Type: RetryCustomized},
		NotifyConsumerIDsChangedEnable: true,
		RetryMaxTimes:                  16,
		RetryQueueNums:                 1,
		WhichBrokerWhenConsumeSlowly:   1,
	}
}

// NewSubscriptionGroupConfig is a group with Java's defaults.
func NewSubscriptionGroupConfig(group string) *SubscriptionGroupConfig {
	c := &SubscriptionGroupConfig{}
	c.SetDefaults()
	c.GroupName = group
	return c
}

// GroupRetryPolicyType is how the pauses between POP retries grow (Java GroupRetryPolicyType).
type GroupRetryPolicyType string

// The retry policies.
const (
	RetryExponential GroupRetryPolicyType = "EXPONENTIAL"
	RetryCustomized  GroupRetryPolicyType = "CUSTOMIZED"
)

// UnmarshalText takes the name in any case or the ordinal.
func (t *GroupRetryPolicyType) UnmarshalText(text []byte) error {
	*t = GroupRetryPolicyType(enumName(text, []string{string(RetryExponential), string(RetryCustomized)}))
	return nil
}

// GroupRetryPolicy is a group's policy; nil parts stand for their defaults.
type GroupRetryPolicy struct {
	CustomizedRetryPolicy  *CustomizedRetryPolicy  `json:"customizedRetryPolicy"`
	ExponentialRetryPolicy *ExponentialRetryPolicy `json:"exponentialRetryPolicy"`
	Type                   GroupRetryPolicyType    `json:"type,omitnull"`
}

// SetDefaults gives the customized policy.
func (p *GroupRetryPolicy) SetDefaults() { p.Type = RetryCustomized }

// CustomizedRetryPolicy is a table of pauses in milliseconds.
type CustomizedRetryPolicy struct {
	Next []int64 `json:"next,set"`
}

// SetDefaults gives the 18 delay levels from 1 s to 2 h.
func (p *CustomizedRetryPolicy) SetDefaults() {
	p.Next = []int64{1000, 5000, 10000, 30000, 60000, 120000, 180000, 240000, 300000, 360000, 420000, 480000,
		540000,
		600000, 1200000, 1800000, 3600000, 7200000}
}

// ExponentialRetryPolicy is pauses in milliseconds that grow by a factor.
type ExponentialRetryPolicy struct {
	Initial    int64 `json:"initial"`
	Max        int64 `json:"max"`
	Multiplier int64 `json:"multiplier"`
}

// SetDefaults gives 5 s, doubled up to 2 h.
func (p *ExponentialRetryPolicy) SetDefaults() { p.Initial, p.Max, p.Multiplier = 5000, 7200000, 2 }

// NextDelay is the pause before the retry after reconsumeTimes deliveries (Java
// RetryPolicy.nextDelayDuration): entry reconsumeTimes+2 of the table, the last one beyond its end; or
// initial · multiplier^reconsumeTimes up to max.
func (p *GroupRetryPolicy) NextDelay(reconsumeTimes int32) time.Duration {
	reconsumeTimes = max(reconsumeTimes, 0)
	if p != nil && p.Type == RetryExponential {
		e := p.ExponentialRetryPolicy
		if e == nil {
			e = &ExponentialRetryPolicy{}
			e.SetDefaults()
		}
		pause := e.Initial
		for range min(reconsumeTimes, 32) {
			if pause >= e.Max {
				break
			}
			pause *= max(e.Multiplier, 1)
		}
		return time.Duration(min(pause, e.Max)) * time.Millisecond
	}
	var table *CustomizedRetryPolicy
	if p != nil {
		table = p.CustomizedRetryPolicy
	}
	if table == nil || len(table.Next) == 0 {
		table = &CustomizedRetryPolicy{}
		table.SetDefaults()
	}
	at := min(int64(reconsumeTimes)+2, int64(len(table.Next)-1))
	return time.Duration(table.Next[at]) * time.Millisecond
}

// SimpleSubscriptionData is a subscription that is bound to a group (5.x).
type SimpleSubscriptionData struct {
	Expression     string `json:"expression,omitnull"`
	ExpressionType string `json:"expressionType,omitnull"`
	Topic          string `json:"topic,omitnull"`
	Version        int64  `json:"version"`
}

// SubscriptionGroupWrapper answers GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201), and is the text of
// subscriptionGroup.json. ForbiddenTable, of group and topic, is missing before the newest 5.x.
type SubscriptionGroupWrapper struct {
	DataVersion            DataVersion                         `json:"dataVersion"`
	ForbiddenTable         map[string]map[string]int32         `json:"forbiddenTable"`
	SubscriptionGroupTable map[string]*SubscriptionGroupConfig `json:"subscriptionGroupTable"`
}

// SubscriptionGroupList is the body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (225).
type SubscriptionGroupList struct {
	GroupConfigList []*SubscriptionGroupConfig `json:"groupConfigList"`
}

// GroupForbidden answers UPDATE_AND_GET_GROUP_FORBIDDEN (353).
type GroupForbidden struct {
	Group    string `json:"group,omitnull"`
	Readable *bool  `json:"readable"`
	Topic    string `json:"topic,omitnull"`
}

// GroupList answers QUERY_TOPIC_CONSUME_BY_WHO (300).
type GroupList struct {
	GroupList []string `json:"groupList"`
}

// QuerySubscriptionResponseBody answers QUERY_SUBSCRIPTION_BY_CONSUMER (345).
type QuerySubscriptionResponseBody struct {
	Group            string            `json:"group,omitnull"`
	SubscriptionData *SubscriptionData `json:"subscriptionData"`
	Topic            string            `json:"topic,omitnull"`
}
