package store

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

// While puts are paused the log stays where it is, whatever was under way; then they go on.
func TestPausePuts(t *testing.T) {
	s := openStore(t, testOptions(vfs.NewMem(), "/data"))
	why := errors.New("handed over")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if put := s.Append(testMessage("T", 0, "x")); put.Status != PutOK {
					require.Equal(t, ServiceNotAvailable, put.Status)
					require.ErrorIs(t, put.Err, why)
				}
			}
		})
	}
	for range 50 {
		s.PausePuts(why)
		end := s.MaxPhyOffset()
		put := s.Append(testMessage("T", 0, "late"))
		require.Equal(t, ServiceNotAvailable, put.Status)
		require.Equal(t, end, s.MaxPhyOffset())
		s.ResumePuts()
		require.Equal(t, PutOK, s.Append(testMessage("T", 0, "again")).Status)
	}
	close(stop)
	wg.Wait()
	ok, _ := s.Writable()
	require.True(t, ok)
}
