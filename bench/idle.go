package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"skylark/client"
	"skylark/codec"
	"skylark/codec/body"
)

// idle keeps connections open that do nothing but say every 30 seconds that they are there, as those of waiting
// producers do. What it measures is what they cost the broker; Messages are the heartbeats that were answered.
func (r *run) idle(ctx context.Context) error {
	var conns []*client.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close() // nothing is under way
		}
	}()
	o := client.Options{CallTimeout: r.o.Timeout, Serialize: r.o.Serialize}
	opening := newShard(false)
	for i := range r.o.Conns {
		nc, err := dial(ctx, r.o, r.t.brokers[i%len(r.t.brokers)])
		if err != nil {
			return fmt.Errorf("%w (connection %d of %d)", err, i+1, r.o.Conns)
		}
		conns = append(conns, client.NewConn(nc, o))
		r.beat(ctx, opening, conns[i], i)
	}
	sh := newShard(false)
	err := r.watched([]*shard{sh}, nil, func() error {
		end := r.tl.now() + int64(r.o.Warmup+r.o.Duration)
		pause := max(heartbeatEvery/time.Duration(len(conns)), time.Microsecond)
		for i := 0; r.tl.now() < end && wait(ctx, min(pause, time.Duration(end-r.tl.now()))); i++ {
			r.beat(ctx, sh, conns[i%len(conns)], i%len(conns))
		}
		return nil
	})
	if n := opening.total.failed; n > 0 {
		r.report.Failures[failOpening] = n
		r.report.FailedMessages += n
	}
	return err
}

// beat sends a heartbeat and waits for its answer.
func (r *run) beat(ctx context.Context, sh *shard, c *client.Conn, i int) {
	req := codec.NewRequest(codec.ReqHeartBeat)
	text, err := body.Encode(&body.HeartbeatData{ClientID: fmt.Sprintf("bench@%d#idle%d", os.Getpid(), i),
		ProducerDataSet: []*body.ProducerData{{GroupName: producerGroup}}})
	if err != nil {
		panic("BUG: bench: " + err.Error())
	}
	req.Body = text
	sent := r.tl.now()
	answer, err := c.Call(ctx, req)
	now := r.tl.now()
	switch {
	case ctx.Err() != nil: // the run ends
	case err != nil:
		sh.fail(failLost, 1, 1)
	case answer.Code != codec.RespSuccess:
		sh.fail(failCode(answer.Code), 1, 1)
	default:
		sh.answered(now, []sample{{sent, sent}}, sums{requests: 1, messages: 1})
	}
}
