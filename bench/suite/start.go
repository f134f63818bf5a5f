package suite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"skylark/internal/freeport"
)

// Limits of a started broker.
const (
	startTimeout = 30 * time.Second
	stopTimeout  = 40 * time.Second
	logTail      = 2000
)

// process is a broker that the suite has started.
type process struct {
	addr  string
	dir   string
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of the process, once ended is closed
}

// startBroker starts a broker on a free port with its files in a temporary directory, and waits until it listens.
func startBroker(ctx context.Context, s *Target, profiles string) (p *process, err error) {
	dir, err := os.MkdirTemp("", "skylark-suite-")
	if err != nil {
		return nil, err
	}
	p = &process{dir: dir, ended: make(chan struct{})}
	port, err := freeport.Find(-2, 1)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	args := []string{"broker"}
	if profiles != "" {
		args = append(args, "-cpuprofile", filepath.Join(profiles, s.Name+".prof"))
	}
	args = append(args, "brokerName="+s.Name, "brokerIP1=127.0.0.1", "listenPort="+strconv.Itoa(port),
		"storePathRootDir="+filepath.Join(dir, "store"), "diskMaxUsedSpaceRatio=95",
		"enablePropertyFilter=true")
	p.cmd = exec.Command(s.Binary, append(args, s.Settings...)...)
	out, err := os.Create(p.logFile())
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	defer out.Close()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = ownGroup() // ^C is for us: we stop it
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	if err := p.awaitPort(ctx); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *process) pid() int        { return p.cmd.Process.Pid }
func (p *process) logFile() string { return filepath.Join(p.dir, "log") }

func (p *process) awaitPort(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		nc, err := net.DialTimeout("tcp", p.addr, time.Second)
		if err == nil {
			return nc.Close()
		}
		select {
		case <-p.ended:
			return fmt.Errorf("the broker ended at once (%v): %s", p.err, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("the broker does not listen on %s: %w: %s", p.addr, ctx.Err(), p.tail())
		case <-tick.C:
		}
	}
}

// tail is the end of the broker's log.
func (p *process) tail() string {
	b, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-logTail):])
}

// stop ends the broker and removes its files. An end before that is an error.
func (p *process) stop() (err error) {
	select {
	case <-p.ended:
		err = fmt.Errorf("the broker had ended before (%v): %s", p.err, p.tail())
	default:
		err = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
			if p.err != nil {
				err = fmt.Errorf("the broker's end: %w: %s", p.err, p.tail())
			}
		case <-time.After(stopTimeout):
			err = errors.Join(err, errors.New("the broker does not end on SIGTERM"), p.cmd.Process.Kill())
			<-p.ended
		}
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}
