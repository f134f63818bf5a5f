package bench

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// onewayBytes is how much is appended before it is written.
const onewayBytes = 32 << 10

// produceOneway sends without answers, as fast as the connections take it. What counts is what was written;
// how much of it the broker has stored is asked afterwards.
func (p *producer) produceOneway(ctx context.Context, conns []net.Conn) {
	var wg sync.WaitGroup
	for i, l := range p.lanes {
		wg.Go(func() {
			l.runOneway(ctx, conns[i])
			_ = conns[i].Close()
		})
		wg.Go(func() { _, _ = io.Copy(io.Discard, conns[i]) }) // requests of the broker
	}
	wg.Wait()
}

// runOneway is one connection's part. A lost connection ends it: whether anything arrives is not known
// anyway.
func (l *lane) runOneway(ctx context.Context, nc net.Conn) {
	var buf []byte
	for ctx.Err() == nil {
		now := l.p.tl.now()
		l.b.tick(l.p.tl.base.Add(time.Duration(now)))
		buf = buf[:0]
		n := int64(0)
		for len(buf) < onewayBytes && l.p.claim(now) {
			buf = l.request(buf, now)
			n++
		}
		if n == 0 {
			return
		}
		if _, err := nc.Write(buf); err != nil {
			l.sh.fail(failLost, n, n*int64(l.p.o.Batch))
			return
		}
		l.sh.answered(l.p.tl.now(), nil, l.sums(n))
	}
}
