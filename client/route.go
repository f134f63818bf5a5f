package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"skylark/codec"
	"skylark/codec/body"
)

// SplitAddrs reads a list of host:port joined by ";" or ",", as namesrvAddr has it.
func SplitAddrs(list string) ([]string, error) {
	var addrs []string
	for _, a := range strings.FieldsFunc(list, func(r rune) bool { return r == ';' || r == ',' }) {
		if a = strings.TrimSpace(a); a == "" {
			continue
		}
		if _, port, err := net.SplitHostPort(a); err != nil || port == "" {
			return nil, fmt.Errorf("client: address %q is not host:port", a)
		}
		if !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return nil, errors.New("client: no address given")
	}
	return addrs, nil
}

// NameServers asks a list of name servers: the one that answered last, then the others in turn.
type NameServers struct {
	c     *Client
	addrs []string
	at    atomic.Uint32 // of the one that answered
}

// NewNameServers makes a list of at least one address that c calls.
func NewNameServers(c *Client, addrs []string) *NameServers {
	if len(addrs) == 0 {
		panic("BUG: client: no name servers")
	}
	return &NameServers{c: c, addrs: slices.Clone(addrs)}
}

// Do sends a request until one of the name servers answers SUCCESS; each has CallTimeout. They need not know
// the same: one that was just started has no routes yet. When none does, a *ResponseError of one that
// answered counts more than that another could not be reached.
func (n *NameServers) Do(ctx context.Context, req *codec.Command) (*codec.Command, error) {
	var failed, refused error
	first := int(n.at.Load())
	for i := range n.addrs {
		at := (first + i) % len(n.addrs)
		answer, err := n.try(ctx, n.addrs[at], req)
		if err == nil {
			n.at.Store(uint32(at))
			return answer, nil
		}
		var re *ResponseError
		if errors.As(err, &re) {
			refused = err
		} else {
			failed = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if refused != nil {
		return nil, refused
	}
	return nil, failed
}

func (n *NameServers) try(ctx context.Context, addr string, req *codec.Command) (*codec.Command, error) {
	ctx, cancel := context.WithTimeout(ctx, n.c.o.CallTimeout)
	defer cancel()
	return n.c.Do(ctx, addr, req)
}

// Route is where a topic is (GET_ROUTEINFO_BY_TOPIC). An unknown one is a *ResponseError with
// RespTopicNotExist.
func (n *NameServers) Route(ctx context.Context, topic string) (*body.TopicRouteData, error) {
	req := codec.NewRequest(codec.ReqGetRouteInfoByTopic)
	standard := true
	codec.EncodeHeader(req, &codec.GetRouteInfoRequestHeader{Topic: topic, AcceptStandardJSONOnly: &standard})
	return decodeBody[body.TopicRouteData](n.Do(ctx, req))
}

// ClusterInfo is all brokers that the name server knows (GET_BROKER_CLUSTER_INFO).
func (n *NameServers) ClusterInfo(ctx context.Context) (*body.ClusterInfo, error) {
	return decodeBody[body.ClusterInfo](n.Do(ctx, codec.NewRequest(codec.ReqGetBrokerClusterInfo)))
}

// decodeBody reads the JSON body of an answer, if there is one.
func decodeBody[T any](answer *codec.Command, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := body.Decode(answer.Body, v); err != nil {
		return nil, fmt.Errorf("client: body of the answer: %w", err)
	}
	return v, nil
}

// Queue is one queue of a topic at the broker that serves it.
type Queue struct {
	BrokerName string
	Addr       string
	ID         int32
}

// WriteQueues are the queues that take messages: of masters, with write permission. The order is by broker
// name and id.
func WriteQueues(r *body.TopicRouteData) []Queue {
	count := func(q *body.QueueData) int32 { return q.WriteQueueNums }
	return queues(r, codec.PermWrite, count, (*body.BrokerData).MasterAddr)
}

// ReadQueues are the queues to pull from: of masters or, where there is none, the slave with the lowest id.
func ReadQueues(r *body.TopicRouteData) []Queue {
	count := func(q *body.QueueData) int32 { return q.ReadQueueNums }
	return queues(r, codec.PermRead, count, func(b *body.BrokerData) string {
		addr, best := b.MasterAddr(), int64(0)
		for id, a := range b.BrokerAddrs {
			if b.MasterAddr() == "" && (addr == "" || id < best) {
				addr, best = a, id
			}
		}
		return addr
	})
}

func queues(r *body.TopicRouteData, perm int32, count func(*body.QueueData) int32,
	addr func(*body.BrokerData) string) (out []Queue) {
	for _, q := range r.QueueDatas {
		if q.Perm&perm == 0 {
			continue
		}
		for _, b := range r.BrokerDatas {
			if a := addr(b); b.BrokerName == q.BrokerName && a != "" {
				for id := range count(q) {
					out = append(out, Queue{BrokerName: b.BrokerName, Addr: a, ID: id})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Queue) int {
		if c := strings.Compare(a.BrokerName, b.BrokerName); c != 0 {
			return c
		}
		return int(a.ID - b.ID)
	})
	return out
}

// Masters are the addresses of all masters, by broker name.
func Masters(info *body.ClusterInfo) map[string]string {
	out := map[string]string{}
	for name, b := range info.BrokerAddrTable {
		if a := b.MasterAddr(); a != "" {
			out[name] = a
		}
	}
	return out
}
