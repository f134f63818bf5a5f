package main

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"skylark/internal/testlog"
)

// What startProcess sets and says.
func TestStartProcess(t *testing.T) {
	t.Setenv("GOGC", "100") // leaves the collector of the test alone
	t.Setenv("GOMEMLIMIT", "off")
	var out testlog.Text
	f := newFlags("broker")
	end, err := f.startProcess(slog.New(slog.NewTextHandler(&out, nil)), 0)
	require.NoError(t, err)
	end()
	require.Contains(t, out.String(), `msg="go runtime" gogc="GOGC=100"`)
	require.Contains(t, out.String(), `msg="go runtime, whole run" gcCycles=`)
	f.pprof = "0.0.0.0:1"
	_, err = f.startProcess(slog.Default(), 0)
	require.ErrorIs(t, err, errUsage)
}

// A signal that comes while a server starts stops it cleanly as soon as it has.
func TestSignalWhileStarting(t *testing.T) {
	t.Setenv("GOGC", "100")
	t.Setenv("GOMEMLIMIT", "off")
	f := newFlags("broker")
	end, err := f.startProcess(slog.Default(), 0)
	require.NoError(t, err)
	defer end()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	stopped := false
	require.NoError(t, f.serve(slog.Default(), func(context.Context) error { stopped = true; return nil }))
	require.True(t, stopped)
}
