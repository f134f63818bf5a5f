package body

import (
	"errors"
	"fmt"
	"strings"

	"skylark/codec"
)

// ConsumeType tells how a consumer gets its messages (Java ConsumeType).
type ConsumeType string

// The consume types.
const (
	ConsumeActively  ConsumeType = "CONSUME_ACTIVELY"  // pull
	ConsumePassively ConsumeType = "CONSUME_PASSIVELY" // push
	ConsumePop       ConsumeType = "CONSUME_POP"
)

// UnmarshalText takes the name in any case or the ordinal.
func (t *ConsumeType) UnmarshalText(text []byte) error {
	*t = ConsumeType(enumName(text, []string{string(ConsumeActively), string(ConsumePassively),
		string(ConsumePop)}))
	return nil
}

// MessageModel tells whether a group shares its messages (Java MessageModel).
type MessageModel string

// The message models.
const (
	Broadcasting MessageModel = "BROADCASTING"
	Clustering   MessageModel = "CLUSTERING"
)

// UnmarshalText takes the name in any case or the ordinal.
func (m *MessageModel) UnmarshalText(text []byte) error {
	*m = MessageModel(enumName(text, []string{string(Broadcasting), string(Clustering)}))
	return nil
}

// ConsumeFromWhere tells where a new group begins (Java ConsumeFromWhere).
type ConsumeFromWhere string

// The starting points; the second to fourth are deprecated in Java.
const (
	FromLastOffset            ConsumeFromWhere = "CONSUME_FROM_LAST_OFFSET"
	FromLastOffsetMinWhenBoot ConsumeFromWhere = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
	FromMinOffset             ConsumeFromWhere = "CONSUME_FROM_MIN_OFFSET"
	FromMaxOffset             ConsumeFromWhere = "CONSUME_FROM_MAX_OFFSET"
	FromFirstOffset           ConsumeFromWhere = "CONSUME_FROM_FIRST_OFFSET"
	FromTimestamp             ConsumeFromWhere = "CONSUME_FROM_TIMESTAMP"
)

// UnmarshalText takes the name in any case or the ordinal.
func (w *ConsumeFromWhere) UnmarshalText(text []byte) error {
	*w = ConsumeFromWhere(enumName(text, []string{string(FromLastOffset), string(FromLastOffsetMinWhenBoot),
		string(FromMinOffset), string(FromMaxOffset), string(FromFirstOffset), string(FromTimestamp)}))
	return nil
}

// Expression types of a subscription (Java ExpressionType), and the expression that takes everything.
const (
	ExpressionTag   = "TAG"
	ExpressionSQL92 = "SQL92"
	SubscribeAll    = "*"
)

// SubscriptionData is what a group wants of a topic (Java SubscriptionData).
type SubscriptionData struct {
	ClassFilterMode bool     `json:"classFilterMode"`
	CodeSet         []int32  `json:"codeSet"` // hashes of TagsSet; client-go sends them as strings
	ExpressionType  string   `json:"expressionType"`
	SubString       string   `json:"subString"`  // "*", "A || B" or SQL
	SubVersion      int64    `json:"subVersion"` // milliseconds
	TagsSet         []string `json:"tagsSet"`
	Topic           string   `json:"topic"`
}

// SetDefaults gives the expression type TAG.
func (s *SubscriptionData) SetDefaults() { s.ExpressionType = ExpressionTag }

// IsTag tells that the expression is one of tags: no type counts as TAG.
func (s *SubscriptionData) IsTag() bool {
	return s.ExpressionType == "" || s.ExpressionType == ExpressionTag
}

// RecomputeCodes fills an empty CodeSet of a tag expression from SubString. Some SDKs leave it out and match
// nothing on a Java broker.
func (s *SubscriptionData) RecomputeCodes() {
	if len(s.CodeSet) > 0 || !s.IsTag() || s.SubString == SubscribeAll || s.SubString == "" {
		return
	}
	s.TagsSet, s.CodeSet = splitTags(s.SubString)
}

// ErrSubscription marks an expression that is no subscription: SUBSCRIPTION_PARSE_FAILED.
var ErrSubscription = errors.New("body: bad subscription")

// NewSubscription makes a subscription of an expression (Java FilterAPI.build): tags joined by "||", where
// nothing stands for "*", or text of another expression type, which is not parsed here but must not be empty.
// SubVersion is left to the caller.
func NewSubscription(topic, expression, expressionType string) (*SubscriptionData, error) {
	s := &SubscriptionData{Topic: topic, SubString: expression, ExpressionType: expressionType}
	if !s.IsTag() {
		if expression == "" {
			return nil, fmt.Errorf("%w: expression can't be null! %s", ErrSubscription, expressionType)
		}
		return s, nil
	}
	s.ExpressionType = ExpressionTag
	if expression == "" || expression == SubscribeAll {
		s.SubString = SubscribeAll
		return s, nil
	}
	if strings.Trim(expression, "|") == "" && len(expression)%2 == 0 { // what Java's split makes nothing of
		return nil, fmt.Errorf("%w: subString split error", ErrSubscription)
	}
	s.TagsSet, s.CodeSet = splitTags(expression)
	return s, nil
}

// splitTags gives the distinct tags of an expression and their codes.
func splitTags(expression string) (tags []string, codes []int32) {
	seenTag, seenCode := map[string]bool{}, map[int32]bool{}
	for tag := range strings.SplitSeq(expression, "||") {
		tag = strings.TrimFunc(tag, func(r rune) bool { return r <= ' ' }) // Java's String.trim
		if tag == "" || seenTag[tag] {
			continue
		}
		seenTag[tag] = true
		tags = append(tags, tag)
		if code := codec.JavaHash(tag); !seenCode[code] {
			seenCode[code] = true
			codes = append(codes, code)
		}
	}
	return tags, codes
}

// ProducerData is a producer group of a client.
type ProducerData struct {
	GroupName string `json:"groupName,omitnull"`
}

// ConsumerData is a consumer group of a client with its subscriptions.
type ConsumerData struct {
	ConsumeFromWhere    ConsumeFromWhere    `json:"consumeFromWhere,omitnull"`
	ConsumeType         ConsumeType         `json:"consumeType,omitnull"`
	GroupName           string              `json:"groupName,omitnull"`
	MessageModel        MessageModel        `json:"messageModel,omitnull"`
	SubscriptionDataSet []*SubscriptionData `json:"subscriptionDataSet"`
	UnitMode            bool                `json:"unitMode"`
}

// HeartbeatData is the body of HEART_BEAT (34). 4.9 has no fingerprint and no WithoutSub.
type HeartbeatData struct {
	ClientID             string          `json:"clientID,omitnull"`
	ConsumerDataSet      []*ConsumerData `json:"consumerDataSet"`
	HeartbeatFingerprint int32           `json:"heartbeatFingerprint"` // not 0: heartbeat V2
	ProducerDataSet      []*ProducerData `json:"producerDataSet"`
	WithoutSub           bool            `json:"withoutSub"` // the subscriptions are not sent again
}

// CheckClientRequestBody is the body of CHECK_CLIENT_CONFIG (46).
type CheckClientRequestBody struct {
	ClientID         string            `json:"clientId,omitnull"`
	Group            string            `json:"group,omitnull"`
	Namespace        string            `json:"namespace,omitnull"`
	SubscriptionData *SubscriptionData `json:"subscriptionData"`
}
