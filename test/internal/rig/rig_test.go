package rig

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(filepath.Join(t.TempDir(), "log"), "sh", "-c", script)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	return p
}

func TestProcess(t *testing.T) {
	p := shell(t, "exec sleep 600")
	require.NoError(t, p.Ended())
	require.NoError(t, p.Kill())
	require.ErrorContains(t, p.Ended(), "signal: killed")
	require.NoError(t, p.Kill(), "again")

	p = shell(t, "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done")
	require.Eventually(t, func() bool { return p.Tail() == "ready\n" }, ReadyTimeout, lookEvery)
	var exit *exec.ExitError
	require.ErrorAs(t, p.Stop(), &exit)
	require.Equal(t, 3, exit.ExitCode())

	p = shell(t, "echo no such setting; exit 4")
	<-p.Done()
	require.ErrorContains(t, p.Ended(), "exit status 4\nno such setting")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, p.AwaitPort(l.Addr().String()))
	require.NoError(t, l.Close())
	require.ErrorContains(t, p.AwaitPort(l.Addr().String()), "no such setting")

	_, err = Start(filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestPlaces(t *testing.T) {
	work := filepath.Join(t.TempDir(), "work")
	t.Setenv("INTEROP_WORK", work)
	require.Equal(t, work, WorkDir(t))
	require.DirExists(t, work)
	bin := filepath.Join(work, "skylark")
	t.Setenv("SKYLARK", bin)
	_, err := FindBinary(work)
	require.ErrorContains(t, err, "SKYLARK names no file")
	require.NoError(t, os.WriteFile(bin, nil, 0o755))
	require.Equal(t, bin, Binary(t))

	keep := t.TempDir()
	dir := Scratch(t, keep)
	require.Equal(t, filepath.Join(keep, "TestPlaces"), dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "old"), nil, 0o644))
	require.Equal(t, dir, Scratch(t, keep))
	require.NoFileExists(t, filepath.Join(dir, "old"))
	require.NotEqual(t, dir, Scratch(t, ""))

	require.Equal(t, "a=1\nb=x=y\n", string(Properties(map[string]string{"b": "x=y", "a": "1"})))
	require.Equal(t, "127.0.0.1:80", Local(80))
}
