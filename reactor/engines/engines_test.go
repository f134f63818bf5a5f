package engines

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/reactor"
	"skylark/reactor/mem"
)

// TestPick: the engine of each value of the key reactor, in a build with and without io_uring, on a kernel that lets it
// run and one that does not; and what is said about it.
func TestPick(t *testing.T) {
	newRing := func(auto bool, err error) *ring {
		return &ring{
			make:  func(o reactor.Options) reactor.Engine { return mem.NewOn(mem.NewNetwork(), o) },
			probe: func() error { return err },
			auto:  auto,
		}
	}
	f := func(name string, r *ring, want, line string) {
		t.Helper()
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		o := reactor.Options{Listen: []string{"127.0.0.1:0"}}
		require.Equal(t, want, pick(name, r, log)(o).Name())
		if line == "" {
			require.Empty(t, out.String())
			return
		}
		require.Contains(t, out.String(), line)
		require.Equal(t, 1, bytes.Count(out.Bytes(), []byte("\n")), "one line")
	}
	forbidden := errors.New("operation not permitted")
	epoll := pick("epoll", nil, slog.Default())(reactor.Options{}).Name() // kqueue elsewhere
	f("auto", nil, epoll, "")
	f("auto", newRing(false, nil), epoll, "")
	f("auto", newRing(true, nil), "mem", "")
	f("", newRing(true, nil), "mem", "")
	f("auto", newRing(true, forbidden), epoll, "level=INFO")
	f("io_uring", nil, epoll, "not part of this build")
	f("io_uring", newRing(false, nil), "mem", "")
	f("io_uring", newRing(true, forbidden), epoll, "level=WARN")
	f("epoll", newRing(true, nil), epoll, "")
	f("std", newRing(true, nil), "std", "")
}
