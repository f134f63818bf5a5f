//go:build interop && linux

package failover

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/javaoracle"
	"skylark/test/internal/rig"
)

const (
	javaThreads  = "2"
	javaInterval = "20" // ms
	// javaPatience is how long a pause may take: a Java producer tries three times, 3 s each.
	javaPatience = 30 * time.Second
)

// javaLoad is a JVM with real producers and a push consumer.
type javaLoad struct {
	r      *record
	cmd    *exec.Cmd
	in     io.WriteCloser
	paused chan struct{}
	done   chan error
}

func startJavaLoad(t *testing.T, c *cluster, r *record) *javaLoad {
	t.Helper()
	work, err := rig.FindWorkDir()
	require.NoError(t, err)
	lib, err := javaoracle.Jars(c.ctx, work, javaoracle.Version53)
	require.NoError(t, err)
	classes := filepath.Join(c.dir, "classes")
	require.NoError(t, run("javac", "-nowarn", "-cp", lib+"/*", "-d", classes, filepath.Join("java", "Load.java")))
	j := &javaLoad{r: r, paused: make(chan struct{}, 1), done: make(chan error, 1)}
	j.cmd = exec.Command("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms64m", "-Xmx256m", "-Duser.home="+c.dir,
		"-cp", classes+":"+lib+"/*", "Load", c.namesrv.addr(), topic, javaGroup, javaThreads, javaInterval)
	errors, err := os.Create(filepath.Join(c.dir, "clients-java.log"))
	require.NoError(t, err)
	defer errors.Close()
	j.cmd.Stderr = errors
	j.in, err = j.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := j.cmd.StdoutPipe()
	require.NoError(t, err)
	c.net.inside(t, c.load, j.cmd.Start)
	go func() {
		err := j.read(out, filepath.Join(c.dir, "clients-java.out"))
		_ = j.cmd.Wait() // it is told to stop, or killed
		j.done <- err
	}()
	c.eventually(readyTimeout, "the Java producers send", func() bool { return len(r.since(java, 0)) > 100 })
	return j
}

func (j *javaLoad) read(out io.Reader, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	copied := bufio.NewWriter(f)
	defer copied.Flush()
	for s := bufio.NewScanner(io.TeeReader(out, copied)); s.Scan(); {
		if err := j.line(strings.Fields(s.Text())); err != nil {
			return fmt.Errorf("%q: %w", s.Text(), err)
		}
	}
	return nil
}

// line takes in one line of Load.java.
func (j *javaLoad) line(w []string) error {
	if len(w) == 0 {
		return nil
	}
	var nums [4]int64
	number := func(i, at int) (err error) {
		nums[i], err = strconv.ParseInt(w[at], 10, 64)
		return err
	}
	switch {
	case w[0] == "paused":
		j.paused <- struct{}{}
	case w[0] == "C" && len(w) == 4:
		for i := range 2 {
			if err := number(i, 2+i); err != nil {
				return err
			}
		}
		j.r.deliver(javaGroup, w[1], place{int32(nums[0]), nums[1]})
	case w[0] == "S" && len(w) == 8:
		for i, at := range []int{2, 3, 5, 6} {
			if err := number(i, at); err != nil {
				return err
			}
		}
		if w[4] != "SEND_OK" {
			j.r.doubt()
			return nil
		}
		// the clock shows whole milliseconds that have begun
		j.r.ack(java, ack{key: w[1], addr: w[7], at: place{int32(nums[2]), nums[3]}, start: time.UnixMilli(nums[0]),
			end: time.UnixMilli(nums[1] + 1)})
	}
	return nil
}

// pause returns when no send is under way.
func (j *javaLoad) pause() error {
	if _, err := io.WriteString(j.in, "pause\n"); err != nil {
		return err
	}
	select {
	case <-j.paused:
		return nil
	case err := <-j.done:
		j.done <- err
		return fmt.Errorf("the Java clients ended: %w", err)
	case <-time.After(javaPatience):
		return fmt.Errorf("%w: a send of Java is under way for %v", errLate, javaPatience)
	}
}

func (j *javaLoad) resume() error {
	_, err := io.WriteString(j.in, "resume\n")
	return err
}

func (j *javaLoad) stop() error {
	_, _ = io.WriteString(j.in, "stop\n") // it may have ended
	select {
	case err := <-j.done:
		return err
	case <-time.After(javaPatience):
		return j.cmd.Process.Kill()
	}
}
