package conn

import (
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/codec/body"
	"skylark/internal/clock"
	"skylark/reactor"
)

// fakeConn is a connection that has an id and nothing else.
type fakeConn struct {
	reactor.Conn
	id uint64
}

func (c fakeConn) ID() uint64                 { return c.id }
func (c fakeConn) RemoteAddr() netip.AddrPort { return netip.MustParseAddrPort("10.0.0.1:4711") }

// manager is a ConsumerManager whose events are written down.
type manager struct {
	*ConsumerManager
	t      *testing.T
	log    strings.Builder
	mu     sync.Mutex
	events []string
}

func newManager(t *testing.T) *manager {
	m := &manager{t: t}
	note := func(s string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.events = append(m.events, s)
	}
	m.ConsumerManager = NewConsumerManager(clock.System, slog.New(slog.NewTextHandler(&m.log, nil)),
		ExpiredTimeout, Events{
			Changed: func(group string, members []reactor.Conn) {
				ids := make([]string, 0, len(members))
				for _, c := range members {
					ids = append(ids, string(rune('0'+c.ID())))
				}
				slices.Sort(ids)
				note("changed " + group + " " + strings.Join(ids, ","))
			},
			Registered: func(group string, subs []*Subscription) {},
			Gone:       func(group string) { note("gone " + group) },
			Ghost:      func(c reactor.Conn) { note("ghost " + string(rune('0'+c.ID()))); m.ConnClosed(c, always) },
		})
	return m
}

// take gives the events since the last call.
func (m *manager) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.events
	m.events = nil
	return out
}

func sub(t *testing.T, topic, expression string, version int64) *Subscription {
	s, err := NewSubscription(&body.SubscriptionData{Topic: topic, SubString: expression, SubVersion: version})
	require.NoError(t, err)
	return s
}

func client(id string, conn uint64) Client {
	return Client{Conn: fakeConn{id: conn}, ID: id, LastUpdate: clock.System.Millis()}
}

func (m *manager) heartbeat(group, id string, conn uint64, subs ...*Subscription) (resend bool) {
	m.t.Helper()
	resend, err := m.Register(Registration{Client: client(id, conn), Group: group, Type: body.ConsumePassively,
		Model: body.Clustering, From: body.FromLastOffset, Subscription: subs}, true)
	require.NoError(m.t, err)
	return resend
}

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

func always(string) bool { return true }
