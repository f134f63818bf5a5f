package bench

import (
	"context"
	"errors"
	"fmt"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

// createBatch is how many topics one request makes.
const createBatch = 500

// makes tells whether a topic that is unknown is made.
func (o *Options) makes() bool { return o.Kind != Consume && o.Kind != Pop }

// topicName is the i-th topic's name.
func (o *Options) topicName(i int) string {
	if o.Topics <= 1 {
		return o.Topic
	}
	return fmt.Sprintf("%s_%05d", o.Topic, i)
}

// topicNames are all of them.
func (o *Options) topicNames() (names []string) {
	for i := range max(o.Topics, 1) {
		names = append(names, o.topicName(i))
	}
	return names
}

// topicsOf are those that a connection sends to: all connections together send to all topics, and no two share one
// unless there are more connections than topics.
func (o *Options) topicsOf(conn int) (names []string) {
	topics := max(o.Topics, 1)
	for i := conn % topics; i < topics; i += o.Conns {
		names = append(names, o.topicName(i))
	}
	return names
}

// topic is the one whose route stands for all: the last, so that the others were made before it.
func (t *target) topic() string { return t.o.topicName(max(t.o.Topics, 1) - 1) }

// createTopics makes all topics, or gives them the configuration c, in batches; a broker that has no request for that
// gets them one by one.
func (t *target) createTopics(ctx context.Context, addr string, c *body.TopicConfig) error {
	names := t.o.topicNames()
	for from := 0; from < len(names); from += createBatch {
		var list []*body.TopicConfig
		for _, name := range names[from:min(from+createBatch, len(names))] {
			one := *c
			one.TopicName = name
			list = append(list, &one)
		}
		err := t.createList(ctx, addr, list)
		if client.IsResponse(err, codec.RespRequestCodeNotSupported) {
			err = t.createEach(ctx, addr, list)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *target) createList(ctx context.Context, addr string, list []*body.TopicConfig) error {
	text, err := body.Encode(&body.CreateTopicListRequestBody{TopicConfigList: list})
	if err != nil {
		return err
	}
	req := codec.NewRequest(codec.ReqUpdateAndCreateTopicList)
	req.Body = text
	ctx, cancel := context.WithTimeout(ctx, max(t.o.Timeout, routeWait))
	defer cancel()
	_, err = t.c.Do(ctx, addr, req)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("making %d topics: %w", len(list), err)
	}
	return err
}

func (t *target) createEach(ctx context.Context, addr string, list []*body.TopicConfig) error {
	for _, c := range list {
		if err := t.c.CreateTopic(ctx, addr, c); err != nil {
			return fmt.Errorf("making topic %s: %w", c.TopicName, err)
		}
	}
	return nil
}
