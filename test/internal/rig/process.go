package rig

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	// ReadyTimeout is how long a process may take until it listens.
	ReadyTimeout = 60 * time.Second
	// StopTimeout is how long it may take to end on SIGTERM.
	StopTimeout = 40 * time.Second

	lookEvery = 5 * time.Millisecond
	dialLimit = time.Second
	tailBytes = 4000
)

// Process is a program that was started.
type Process struct {
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid behind done
}

// Start starts a program whose output goes to the end of the file log. Nothing but Kill or Stop ends it.
func Start(log, name string, args ...string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the process has its own
	p := &Process{log: log, cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended tells why a process has ended by itself, nil while it runs.
func (p *Process) Ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("process %d ended: %v\n%s", p.Pid(), p.err, p.Tail())
	default:
		return nil
	}
}

// Kill ends the process as kill -9 does, and returns when it has ended. One that has ended already is fine.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// Stop ends the process by SIGTERM. The error is that of a process which did not end with 0 (exec.ExitError), or not within
// StopTimeout: then it is killed.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	late := time.NewTimer(StopTimeout)
	defer late.Stop()
	select {
	case <-p.done:
		return p.err
	case <-late.C:
		return errors.Join(fmt.Errorf("process %d did not end on SIGTERM, see %s", p.Pid(), p.log), p.Kill())
	}
}

// AwaitPort waits until somebody listens on addr, no longer than the process lives and ReadyTimeout.
func (p *Process) AwaitPort(addr string) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	late := time.NewTimer(ReadyTimeout)
	defer late.Stop()
	for {
		if c, err := net.DialTimeout("tcp", addr, dialLimit); err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-p.done:
			return p.Ended()
		case <-late.C:
			return fmt.Errorf("nobody listens on %s, see %s", addr, p.log)
		}
	}
}

// Tail is the end of what the process has printed.
func (p *Process) Tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-tailBytes):])
}
