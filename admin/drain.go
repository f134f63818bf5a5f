package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

const (
	// routeTime is how long clients go on with a route they have (pollNameServerInterval, 30 s), with some more.
	routeTime = 33 * time.Second
	// quietTime is how long nothing may have come before the master counts as drained.
	quietTime = 3 * time.Second
	// drainTime is how long --drain waits for that after routeTime.
	drainTime = time.Minute
	// lookInterval is the pause between two looks at the master.
	lookInterval = 500 * time.Millisecond
	// maxTopicsNamed bounds the topics in an error.
	maxTopicsNamed = 10
)

// ErrOnlyHere refuses to drain a broker that alone has topics.
var ErrOnlyHere = errors.New("admin: no other broker name takes messages of some topics")

// drain leads producers away from a master, by its write permission in the routes, and waits until nothing comes any more
// and its slaves have everything. The master goes on to take what is sent, so that no send fails.
func drain(ctx context.Context, o *Options) error {
	addr, err := findMaster(ctx, o)
	if err != nil {
		return err
	}
	o.Say("master of %s: %s", o.Broker, addr)
	alone, err := onlyHere(ctx, o)
	switch {
	case err != nil:
		return err
	case len(alone) > 0 && !o.Force:
		more := ""
		if len(alone) > maxTopicsNamed {
			more = fmt.Sprintf(" and %d more", len(alone)-maxTopicsNamed)
		}
		return fmt.Errorf("%w: %s%s. Make them on another one, or say --force", ErrOnlyHere,
			strings.Join(alone[:min(len(alone), maxTopicsNamed)], ", "), more)
	}
	if err := writePerm(ctx, o, codec.ReqWipeWritePermOfBroker); err != nil {
		return err
	}
	o.Say("producers are led to other broker names; they notice within 30 s")
	began := time.Now()
	last, since := int64(-1), began
	for {
		end, behind, err := progress(ctx, o, addr)
		if err != nil {
			return err
		}
		if end != last {
			last, since = end, time.Now()
		}
		quiet := time.Since(since) >= quietTime
		switch waited := time.Since(began); {
		case waited >= routeTime && quiet && behind == 0:
			o.Say("nothing comes any more and the slaves have everything: stop the broker at %s now. When it starts again, "+
				"producers come back; --undo brings them back without.", addr)
			return nil
		case waited >= routeTime+drainTime && behind > 0:
			return fmt.Errorf("admin: a slave of %s still lacks %d bytes; --undo takes the drain back", addr, behind)
		case waited >= routeTime+drainTime:
			return fmt.Errorf("admin: %s still gets messages (delayed ones and retries are its own); --undo takes the drain back",
				addr)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookInterval):
		}
	}
}

// undo gives the write permission back.
func undo(ctx context.Context, o *Options) error {
	if err := writePerm(ctx, o, codec.ReqAddWritePermOfBroker); err != nil {
		return err
	}
	o.Say("producers come back to %s within 30 s", o.Broker)
	return nil
}

// writePerm changes the write permission at all name servers.
func writePerm(ctx context.Context, o *Options, code int) error {
	for _, addr := range o.Namesrv {
		req := codec.NewRequest(code)
		codec.EncodeHeader(req, &codec.BrokerNameRequestHeader{BrokerName: o.Broker})
		if _, err := o.Client.Do(ctx, addr, req); err != nil {
			return fmt.Errorf("admin: name server %s: %w", addr, err)
		}
	}
	return nil
}

// progress is the end of the master's log and how many bytes its last slave lacks.
func progress(ctx context.Context, o *Options, addr string) (end, behind int64, err error) {
	answer, err := o.Client.Do(ctx, addr, codec.NewRequest(codec.ReqGetBrokerHAStatus))
	if err != nil {
		return 0, 0, fmt.Errorf("admin: %s: %w", addr, err)
	}
	var info body.HARuntimeInfo
	if err := body.Decode(answer.Body, &info); err != nil {
		return 0, 0, fmt.Errorf("admin: %s: %w", addr, err)
	}
	for _, c := range info.HAConnectionInfo {
		behind = max(behind, c.Diff)
	}
	return int64(info.MasterCommitLogMaxOffset), behind, nil
}

// onlyHere are the topics with write permission that no other broker name takes messages of.
func onlyHere(ctx context.Context, o *Options) (topics []string, err error) {
	ns := client.NewNameServers(o.Client, o.Namesrv)
	answer, err := ns.Do(ctx, codec.NewRequest(codec.ReqGetAllTopicListFromNameserver))
	if err != nil {
		return nil, fmt.Errorf("admin: topics: %w", err)
	}
	var list body.TopicList
	if err := body.Decode(answer.Body, &list); err != nil {
		return nil, fmt.Errorf("admin: topics: %w", err)
	}
	for _, topic := range list.TopicList {
		if topic == o.Broker || codec.IsSystemTopic(topic) || codec.IsRetryTopic(topic) || codec.IsDLQTopic(topic) {
			continue
		}
		route, err := ns.Route(ctx, topic)
		if client.IsResponse(err, codec.RespTopicNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("admin: route of %s: %w", topic, err)
		}
		queues := client.WriteQueues(route)
		here := func(q client.Queue) bool { return q.BrokerName == o.Broker }
		if slices.ContainsFunc(queues, here) && !slices.ContainsFunc(queues, func(q client.Queue) bool { return !here(q) }) {
			topics = append(topics, topic)
		}
	}
	return topics, nil
}
