package crash

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

const txGroup = "pg-tx"

// outcomes are how transactions ended, by the body of the message; only those whose end was answered.
type outcomes struct {
	mu         sync.Mutex
	cond       *sync.Cond
	committed  map[string]bool
	rolledBack map[string]bool
}

// txEnd makes the END_TRANSACTION of a half message.
func txEnd(at codec.QueueOffset, phyOffset codec.PhyOffset, state int32, check bool) *codec.Command {
	req := codec.NewRequest(codec.ReqEndTransaction)
	codec.EncodeHeader(req, &codec.EndTransactionRequestHeader{Topic: topicName, ProducerGroup: txGroup,
		TranStateTableOffset: at, CommitLogOffset: phyOffset, CommitOrRollback: state, FromTransactionCheck: check, MsgID: "x"})
	return req
}

// transact prepares a transaction and ends it: three of four are committed, of the others one is left open. false when
// the broker is dead.
func (o *outcomes) transact(t *testing.T, c *client.Conn, name string, i int) bool {
	req := sendRequest(txGroup, int32(i%queues),
		fmt.Sprintf("TRAN_MSG\x01true\x02PGROUP\x01%s\x02UNIQ_KEY\x01%s\x02", txGroup, name), []byte(name))
	answer, err := c.Call(context.Background(), req)
	if err != nil {
		return false
	}
	var sent codec.SendMessageResponseHeader
	if answer.Code != codec.RespSuccess || codec.DecodeHeader(answer, &sent) != nil {
		t.Errorf("half message: %v", answer)
		return false
	}
	_, at, _ := codec.ParseOffsetMsgID(sent.MsgID)
	state, ended := codec.SysFlagTransactionCommit, o.committed
	switch i % 8 {
	case 3:
		return true
	case 5:
		state, ended = codec.SysFlagTransactionRollback, o.rolledBack
	}
	if answer, err = c.Call(context.Background(), txEnd(sent.QueueOffset, at, state, false)); err != nil {
		return false
	}
	if answer.Code != codec.RespSuccess {
		t.Errorf("end of a transaction: %v", answer)
		return false
	}
	o.mu.Lock()
	ended[name] = true
	o.cond.Broadcast()
	o.mu.Unlock()
	return true
}

// load transacts until the broker dies.
func (o *outcomes) load(t *testing.T, p *process, life int) {
	var wg sync.WaitGroup
	for n := range producers {
		wg.Go(func() {
			c, err := p.dial()
			if err != nil {
				return
			}
			defer c.Close()
			for i := 0; o.transact(t, c, fmt.Sprintf("%d/%d/%d", life, n, i), i); i++ {
				continue
			}
		})
	}
	o.mu.Lock()
	for before := len(o.committed); len(o.committed) < before+minAcked; {
		o.cond.Wait()
	}
	o.mu.Unlock()
	p.kill()
	wg.Wait()
}

// TestKillSettlesTransactionsOnce: of a broker that is killed while transactions are prepared and ended, every committed
// one is seen once and no rolled back one; only those whose end was not answered are asked about.
func TestKillSettlesTransactionsOnce(t *testing.T) {
	dir := t.TempDir()
	const conf = "transactionTimeOut=1000\ntransactionCheckInterval=500\ntransactionCheckMax=1000\n"
	o := &outcomes{committed: map[string]bool{}, rolledBack: map[string]bool{}}
	o.cond = sync.NewCond(&o.mu)
	for life := range rounds {
		o.load(t, start(t, dir, life, conf), life)
	}
	p := start(t, dir, rounds, conf)
	asked := map[string]bool{}
	c, err := client.Dial(context.Background(), p.addr, client.Options{CallTimeout: 20 * time.Second, MaxHandlers: 100000,
		Handler: func(c *client.Conn, req *codec.Command) *codec.Command {
			var h codec.CheckTransactionStateRequestHeader
			rec, err := codec.ParseRecord(req.Body, true)
			if err != nil || codec.DecodeHeader(req, &h) != nil {
				t.Errorf("question: %v %v", req, err)
				return nil
			}
			o.mu.Lock()
			asked[string(rec.Body)] = true
			o.mu.Unlock()
			_, _ = c.Call(context.Background(), txEnd(h.TranStateTableOffset, h.CommitLogOffset,
				codec.SysFlagTransactionRollback, true))
			return nil
		}})
	require.NoError(t, err)
	defer c.Close()
	data, err := body.Encode(&body.HeartbeatData{ClientID: "c", ProducerDataSet: []*body.ProducerData{{GroupName: txGroup}}})
	require.NoError(t, err)
	beat := codec.NewRequest(codec.ReqHeartBeat)
	beat.Body = data
	_, err = c.Call(context.Background(), beat)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		answer, err := c.Call(context.Background(), codec.NewRequest(codec.ReqGetBrokerRuntimeInfo))
		var info body.KVTable
		return err == nil && body.Decode(answer.Body, &info) == nil && info.Table["transactionOpen"] == "0"
	}, time.Minute, 100*time.Millisecond, "open transactions are asked about and rolled back")
	found := readAll(t, p)
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.committed {
		require.Contains(t, found, name, "committed and lost")
		require.False(t, asked[name], "%s was committed and is asked about", name)
	}
	for name := range o.rolledBack {
		require.NotContains(t, found, name)
		require.False(t, asked[name], "%s was rolled back and is asked about", name)
	}
	for name := range asked {
		require.NotContains(t, found, name, "asked about although it is visible")
	}
	perQueue := map[int32]int{}
	for _, at := range found {
		perQueue[at.queueID]++
	}
	for _, at := range found {
		require.Less(t, int(at.offset), perQueue[at.queueID], "queue %d has something twice", at.queueID)
	}
	t.Logf("%d committed, %d visible, %d rolled back, %d asked about", len(o.committed), len(found), len(o.rolledBack),
		len(asked))
	p.stop(t)
}
