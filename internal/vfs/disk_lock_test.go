package vfs

import (
	"bufio"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// child is a running lockChild.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	answer string
}

func startChild(t *testing.T, role, name string) *child {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	c := &child{cmd: exec.Command(exe, name)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+role)
	c.cmd.Stderr = os.Stderr
	c.stdin, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	c.answer = line[:len(line)-1]
	return c
}

func (c *child) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, c.stdin.Close())
	require.NoError(t, c.cmd.Wait())
}

func TestLockBetweenProcesses(t *testing.T) {
	f := func(t *testing.T, role string) {
		name := filepath.Join(t.TempDir(), "lock")
		held, err := OS.Lock(name)
		require.NoError(t, err)
		c := startChild(t, role, name)
		require.Equal(t, "refused", c.answer)
		c.stop(t)

		require.NoError(t, held.Close())
		c = startChild(t, role, name)
		require.Equal(t, "locked", c.answer)
		_, err = OS.Lock(name)
		require.ErrorIs(t, err, ErrLocked)
		c.stop(t)

		held, err = OS.Lock(name) // the end of the process has released it
		require.NoError(t, err)
		require.NoError(t, held.Close())
		require.ErrorIs(t, held.Close(), fs.ErrClosed)
	}
	t.Run("ours", func(t *testing.T) { f(t, "lock") })
	t.Run("as the JVM", func(t *testing.T) { f(t, "raw") })
}

func TestLockInsideProcess(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "lock")
	held, err := OS.Lock(name)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(name, filepath.Join(dir, "link")))
	require.NoError(t, os.Link(name, filepath.Join(dir, "hard")))

	f := func(path string) {
		t.Helper()
		_, err := OS.Lock(path)
		require.ErrorIs(t, err, ErrLocked)
	}
	f(name)
	f(dir + "/./lock")
	f(filepath.Join(dir, "link"))
	f(filepath.Join(dir, "hard"))

	c := startChild(t, "raw", name) // the refused attempts have not dropped the lock
	require.Equal(t, "refused", c.answer)
	c.stop(t)

	other, err := OS.Lock(filepath.Join(dir, "other"))
	require.NoError(t, err)
	require.NoError(t, other.Close())
	require.NoError(t, held.Close())
}

// The store writes the word "lock" into the file it holds. Closing that second descriptor would drop a
// POSIX lock.
func TestLockSurvivesCloseOfTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	held, err := OS.Lock(name)
	require.NoError(t, err)
	file, err := OS.OpenReadWrite(name)
	require.NoError(t, err)
	_, err = file.WriteAt([]byte("lock"), 0)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.ErrorIs(t, file.Close(), fs.ErrClosed)
	data, err := ReadFile(OS, name)
	require.NoError(t, err)
	require.Equal(t, "lock", string(data))

	c := startChild(t, "raw", name)
	require.Equal(t, "refused", c.answer)
	c.stop(t)
	require.NoError(t, held.Close())
	c = startChild(t, "raw", name)
	require.Equal(t, "locked", c.answer)
	c.stop(t)
}

func TestLockNeedsADirectory(t *testing.T) {
	_, err := OS.Lock(filepath.Join(t.TempDir(), "missing", "lock"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
