package client

import (
	"context"
	"fmt"

	"skylark/codec"
	"skylark/codec/body"
)

// CreateTopic makes or changes a topic at a broker (UPDATE_AND_CREATE_TOPIC), which registers it with its
// name servers before it answers. t is best begun with SetDefaults.
func (c *Client) CreateTopic(ctx context.Context, addr string, t *body.TopicConfig) error {
	req := codec.NewRequest(codec.ReqUpdateAndCreateTopic)
	attributes := ""
	for k, v := range t.Attributes {
		if attributes != "" {
			attributes += ","
		}
		attributes += "+" + k + "=" + v
	}
	codec.EncodeHeader(req, &codec.CreateTopicRequestHeader{Topic: t.TopicName, DefaultTopic: codec.AutoCreateTopicKey,
		ReadQueueNums: t.ReadQueueNums, WriteQueueNums: t.WriteQueueNums, Perm: t.Perm,
		TopicFilterType: string(t.TopicFilterType), TopicSysFlag: &t.TopicSysFlag, Order: t.Order, Attributes: attributes})
	_, err := c.Do(ctx, addr, req)
	return err
}

// TopicConfig is a topic as a broker has it: GET_TOPIC_CONFIG or, at a 4.x broker, one of
// GET_ALL_TOPIC_CONFIG. An unknown topic is a *ResponseError with RespTopicNotExist.
func (c *Client) TopicConfig(ctx context.Context, addr, topic string) (*body.TopicConfig, error) {
	req := codec.NewRequest(codec.ReqGetTopicConfig)
	codec.EncodeHeader(req, &codec.TopicRequestHeader{Topic: topic})
	t, err := decodeBody[body.TopicConfig](c.Do(ctx, addr, req))
	if !IsResponse(err, codec.RespRequestCodeNotSupported) {
		return t, err
	}
	req = codec.NewRequest(codec.ReqGetAllTopicConfig)
	all, err := decodeBody[body.TopicConfigSerializeWrapper](c.Do(ctx, addr, req))
	if err != nil {
		return nil, err
	}
	if t := all.TopicConfigTable[topic]; t != nil {
		return t, nil
	}
	return nil, &ResponseError{Request: codec.ReqGetAllTopicConfig, Code: codec.RespTopicNotExist,
		Remark: fmt.Sprintf("No topic in this broker. topic: %s", topic)}
}

// DeleteTopic removes a topic from a broker (DELETE_TOPIC_IN_BROKER).
func (c *Client) DeleteTopic(ctx context.Context, addr, topic string) error {
	req := codec.NewRequest(codec.ReqDeleteTopicInBroker)
	codec.EncodeHeader(req, &codec.TopicRequestHeader{Topic: topic})
	_, err := c.Do(ctx, addr, req)
	return err
}

// CreateGroup makes or changes a consumer group at a broker (UPDATE_AND_CREATE_SUBSCRIPTIONGROUP); see
// body.NewSubscriptionGroupConfig.
func (c *Client) CreateGroup(ctx context.Context, addr string, g *body.SubscriptionGroupConfig) error {
	req := codec.NewRequest(codec.ReqUpdateAndCreateSubscriptionGroup)
	text, err := body.Encode(g)
	if err != nil {
		return fmt.Errorf("client: group %s: %w", g.GroupName, err)
	}
	req.Body = text
	_, err = c.Do(ctx, addr, req)
	return err
}

// RuntimeInfo is what a broker says about itself (GET_BROKER_RUNTIME_INFO), such as brokerVersionDesc and
// putTps.
func (c *Client) RuntimeInfo(ctx context.Context, addr string) (map[string]string, error) {
	t, err := decodeBody[body.KVTable](c.Do(ctx, addr, codec.NewRequest(codec.ReqGetBrokerRuntimeInfo)))
	if err != nil {
		return nil, err
	}
	return t.Table, nil
}

// GroupConfig is a consumer group as a 5.x broker has it (GET_SUBSCRIPTIONGROUP_CONFIG). An unknown one,
// where groups are not made on first use, is a *ResponseError with RespSubscriptionGroupNotExist.
func (c *Client) GroupConfig(ctx context.Context, addr, group string) (*body.SubscriptionGroupConfig, error) {
	req := codec.NewRequest(codec.ReqGetSubscriptionGroupConfig)
	codec.EncodeHeader(req, &codec.GroupRequestHeader{Group: group})
	return decodeBody[body.SubscriptionGroupConfig](c.Do(ctx, addr, req))
}
