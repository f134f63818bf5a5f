//go:build interop

package handover

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

const (
	topicTx   = "HandoverTx"
	groupTx   = "PID_handover_tx"
	txCommits = 30 // of a life, ended at once
	txBacks   = 20
	txOpen    = 5 // left to the next life, whose checks commit them
)

// txProducer is a producer of groupTx that knows what each transaction of the relay is to become.
type txProducer struct {
	t      *testing.T
	l      *life
	client *client.Client
	before int // transactions of lives before this one are committed when asked about

	mu    sync.Mutex
	asked map[string]int // by name
}

// transactions hands open transactions from broker to broker: each is asked about by the next one, and every committed
// message is there once in the end.
func (r *relay) transactions() {
	r.d.props["transactionTimeOut"], r.d.props["transactionCheckInterval"] = "3000", "1000"
	r.d.props["transactionOpBatchInterval"] = "1000"
	r.d.props["transactionCheckMax"] = "1000" // Java counts also without a producer
	legs := []leg{{java53, clean}, {skylark, clean}, {java53, killed}, {skylark, killed}, {java53, clean}, {skylark, clean}}
	for _, leg := range legs {
		l := r.d.start(r.t, leg.kind)
		if l.number == 1 {
			c := &body.TopicConfig{}
			c.SetDefaults()
			c.TopicName, c.ReadQueueNums, c.WriteQueueNums = topicTx, 1, 1
			require.NoError(r.t, l.client.CreateTopic(l.ctx, l.addr, c))
		}
		p := newTxProducer(r.t, l)
		open := p.awaitOpen()
		ended := p.write()
		if !l.java() { // Java asks when its op messages are late
			p.requireAskedOnly(open)
		}
		want := p.expected()
		require.Equal(r.t, want, p.seen(), "%s: what consumers of %s see", l, topicTx)
		if l.java() { // a kill would lose what it keeps in memory
			p.awaitAsked(3)
		}
		p.client.Close()
		if leg.end == clean {
			l.stop(r.t)
		} else {
			l.kill(r.t)
		}
		r.t.Logf("%s: %d transactions ended, %d questions about those of the life before", l, ended, len(open))
	}
}

func newTxProducer(t *testing.T, l *life) *txProducer {
	p := &txProducer{t: t, l: l, before: l.number, asked: map[string]int{}}
	p.client = client.New(client.Options{CallTimeout: callTimeout, MaxHandlers: 10000, Handler: p.serve})
	t.Cleanup(func() { p.client.Close() })
	require.NoError(t, p.client.Heartbeat(l.ctx, l.addr, &body.HeartbeatData{ClientID: fmt.Sprint("tx-", l.number),
		ProducerDataSet: []*body.ProducerData{{GroupName: groupTx}}}))
	return p
}

// serve answers a question: what an earlier life left open is committed.
func (p *txProducer) serve(c *client.Conn, req *codec.Command) *codec.Command {
	if req.Code != codec.ReqCheckTransactionState {
		return nil
	}
	var h codec.CheckTransactionStateRequestHeader
	rec, err := codec.ParseRecord(req.Body, true)
	if err != nil || codec.DecodeHeader(req, &h) != nil {
		return nil
	}
	name := string(rec.Body)
	p.mu.Lock()
	p.asked[name]++
	first := p.asked[name] == 1
	p.mu.Unlock()
	if first && lifeOf(name) < p.before && strings.Contains(name, "-open-") {
		p.end(h.TranStateTableOffset, h.CommitLogOffset, h.TransactionID, codec.SysFlagTransactionCommit, true)
	}
	return nil
}

// lifeOf is the life that prepared a transaction: names are "life-kind-number".
func lifeOf(name string) (n int) {
	_, _ = fmt.Sscanf(name, "%d-", &n)
	return n
}

func (p *txProducer) end(at codec.QueueOffset, phyOffset codec.PhyOffset, id string, state int32, check bool) {
	req := codec.NewRequest(codec.ReqEndTransaction)
	codec.EncodeHeader(req, &codec.EndTransactionRequestHeader{Topic: topicTx, ProducerGroup: groupTx,
		TranStateTableOffset: at, CommitLogOffset: phyOffset, CommitOrRollback: state, FromTransactionCheck: check, MsgID: id,
		TransactionID: id})
	if _, err := p.client.Do(p.l.ctx, p.l.addr, req); err != nil {
		p.t.Errorf("%s: end of a transaction: %v", p.l, err)
	}
}

// awaitOpen waits until all that the life before left open has been asked about, and committed.
func (p *txProducer) awaitOpen() (open []string) {
	p.t.Helper()
	if p.l.number > 1 {
		for i := range txOpen {
			open = append(open, txName(p.l.number-1, "open", i))
		}
	}
	require.Eventually(p.t, func() bool {
		seen := p.seen()
		return !slices.ContainsFunc(open, func(name string) bool { return !slices.Contains(seen, name) })
	}, 30*time.Second, 50*time.Millisecond, "%s: open transactions %v, asked about: %v", p.l, open, p.asked)
	return open
}

func txName(life int, kind string, i int) string { return fmt.Sprintf("%d-%s-%02d", life, kind, i) }

// write prepares the transactions of this life and ends all but txOpen.
func (p *txProducer) write() (ended int) {
	p.t.Helper()
	one := func(kind string, i int, state int32) {
		id := fmt.Sprintf("%032d", p.l.number*1000+ended)
		props := codec.EncodeProperties(map[string]string{codec.PropTransactionPrepared: "true",
			codec.PropProducerGroup: groupTx, codec.PropUniqKey: id, codec.PropTags: kind})
		r, err := p.client.Send(p.l.ctx, p.l.addr, &codec.SendMessageHeader{ProducerGroup: []byte(groupTx),
			Topic: []byte(topicTx), SysFlag: codec.SysFlagTransactionPrepared, BornTimestamp: time.Now().UnixMilli(),
			Properties: codec.Field{Value: props}}, []byte(txName(p.l.number, kind, i)))
		require.NoError(p.t, err, "%s: half message", p.l)
		ended++
		if state == codec.SysFlagTransactionNone {
			return
		}
		_, at, err := codec.ParseOffsetMsgID(r.MsgIDs[0])
		require.NoError(p.t, err)
		p.end(r.QueueOffset, at, id, state, false)
	}
	for i := range txOpen {
		one("open", i, codec.SysFlagTransactionNone)
	}
	for i := range txCommits {
		one("commit", i, codec.SysFlagTransactionCommit)
	}
	for i := range txBacks {
		one("back", i, codec.SysFlagTransactionRollback)
	}
	return ended - txOpen
}

// awaitAsked waits for n rounds of checks: until the transactions that this life leaves open were asked about so often.
func (p *txProducer) awaitAsked(n int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i := range txOpen {
			if p.asked[txName(p.l.number, "open", i)] < n {
				return false
			}
		}
		return true
	}, 30*time.Second, 50*time.Millisecond, "%s: asked about %v", p.l, p.asked)
}

// requireAskedOnly checks that no question was about a transaction that had been ended.
func (p *txProducer) requireAskedOnly(open []string) {
	p.t.Helper()
	p.awaitAsked(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.asked {
		mine := strings.HasPrefix(name, fmt.Sprintf("%d-open", p.l.number))
		require.True(p.t, mine || slices.Contains(open, name), "%s: asked about %s", p.l, name)
	}
}

// expected is what consumers have to see now, sorted.
func (p *txProducer) expected() (out []string) {
	for life := 1; life <= p.l.number; life++ {
		for i := range txCommits {
			out = append(out, txName(life, "commit", i))
		}
		for i := 0; i < txOpen && life < p.l.number; i++ {
			out = append(out, txName(life, "open", i))
		}
	}
	slices.Sort(out)
	return out
}

// seen is what consumers see now, sorted.
func (p *txProducer) seen() (out []string) {
	q := p.l.readQueue(p.t, queueKey{topicTx, 0})
	for i := range q.records {
		out = append(out, string(q.records[i].Body))
	}
	slices.Sort(out)
	return out
}
