package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/codec"
)

// unanswered are messages whose sends got no answer, and what others were told.
type unanswered struct {
	mu    sync.Mutex
	sent  []string
	acked map[string]place
}

func uniqSend(id string, queueID int32) *codec.Command {
	return sendRequest("pg", queueID, "UNIQ_KEY\x01"+id+"\x02", []byte(id))
}

func parsePlace(answer *codec.Command) (at place) {
	_, _ = fmt.Sscan(answer.Get("queueId"), &at.queueID)
	_, _ = fmt.Sscan(answer.Get("queueOffset"), &at.offset)
	return at
}

// duplicateLoad sends many at a time, some of them twice, until the broker dies.
func duplicateLoad(t *testing.T, p *process, life int, u *unanswered) {
	var wg sync.WaitGroup
	for n := range producers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := p.dial()
			if err != nil {
				return
			}
			defer c.Close()
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d/%d/%d", life, n, i)
				answers := make(chan *codec.Command, 2)
				asked := 0
				for range 1 + rand.IntN(2) {
					if _, err := c.Go(uniqSend(id, int32(rand.IntN(queues))), func(a *codec.Command, err error) {
						if err != nil {
							a = nil
						}
						answers <- a
					}); err == nil {
						asked++
					}
				}
				lost := asked == 0
				for range asked {
					answer := <-answers
					lost = lost || answer == nil
					if answer != nil {
						u.note(t, id, answer)
					}
				}
				if lost {
					u.mu.Lock()
					u.sent = append(u.sent, id)
					u.mu.Unlock()
					return
				}
			}
		}()
	}
	require.Eventually(t, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.acked) >= (life+1)*minAcked
	}, time.Minute, 5*time.Millisecond)
	p.kill()
	wg.Wait()
}

// note checks that every answer to a message names the same place.
func (u *unanswered) note(t *testing.T, id string, answer *codec.Command) {
	if answer.Code != codec.RespSuccess {
		t.Errorf("send of %s: %v", id, answer)
		return
	}
	at := parsePlace(answer)
	u.mu.Lock()
	defer u.mu.Unlock()
	if was, ok := u.acked[id]; ok && was != at {
		t.Errorf("%s: answered with %v, before with %v", id, at, was)
	}
	u.acked[id] = at
}

// TestKillKeepsDuplicatesOut: what was under way when the broker was killed is sent again to the next one, and so is much
// of what was acknowledged: each message is there once, where its first answer said.
func TestKillKeepsDuplicatesOut(t *testing.T) {
	// Not with a transient store pool: a kill takes what was acknowledged there, and it is right to store that again.
	for _, more := range []string{"", "flushDiskType=SYNC_FLUSH\n"} {
		dir := t.TempDir()
		conf := "duplicateSuppressionEnable=true\n" + more
		u := &unanswered{acked: map[string]place{}}
		for life := range rounds {
			p := start(t, dir, life, conf)
			c, err := p.dial()
			require.NoError(t, err)
			again := slices.Clone(u.sent)
			for id := range u.acked {
				if again = append(again, id); len(again) > 2*minAcked {
					break
				}
			}
			for _, id := range again {
				answer, err := c.Call(context.Background(), uniqSend(id, int32(rand.IntN(queues))))
				require.NoError(t, err)
				u.note(t, id, answer)
			}
			require.NoError(t, c.Close())
			u.sent = nil
			duplicateLoad(t, p, life, u)
		}
		p := start(t, dir, rounds, conf)
		want := len(u.acked)
		require.Eventually(t, func() bool { return delivered(p) >= int64(want) }, time.Minute, 50*time.Millisecond)
		found := readAll(t, p)
		for id, at := range u.acked {
			require.Equal(t, at, found[id], id)
		}
		require.EqualValues(t, len(found), delivered(p), "stored twice")
		t.Logf("%d acknowledged, %d stored", want, len(found))
		p.stop(t)
	}
}
