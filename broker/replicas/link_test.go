package replicas_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A broker whose links were dead without a sign, to controller, name server and slaves, is whole within three seconds after
// they are back: no old connection is waited for.
func TestDeadLinks(t *testing.T) {
	f := func(master bool, out time.Duration) {
		t.Run(fmt.Sprint(master, out), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := scenario(t, 2, allAck)
				defer s.close()
				s.mustSend("T", 5)
				m := s.master()
				if !master {
					m = s.other()
				}
				m.hole.Store(true)
				time.Sleep(out)
				if master {
					s.eventually("another master", func() bool {
						o := s.members[1-m.n]
						return o.Replicas().Role.Master && !o.Store().Following()
					})
				}
				s.client.Drop(m.addr(0))
				s.outage("T")
				m.hole.Store(false)
				began := time.Now()
				s.eventually("whole", func() bool {
					return s.settledNow(2) && m.Store().Following() && m.Replicas().Leader != ""
				})
				t.Logf("whole %v after the links are back", time.Since(began))
				require.LessOrEqual(t, time.Since(began), 3*time.Second)
				s.mustSend("T", 5)
				s.sameLogs()
				s.checkSent(s.master(), "T")
				require.Equal(t, s.master().addr(0), s.route("T"))
			})
		})
	}
	f(true, 30*time.Second)
	f(true, 31200*time.Millisecond)
	f(true, 5*time.Minute)
	f(false, 30*time.Second)
	f(false, 31200*time.Millisecond)
	f(false, 5*time.Minute)
}
