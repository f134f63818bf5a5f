//go:build interop && linux

package failover

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skylark/internal/javaoracle"
)

// The kinds of servers.
const (
	ours = "Skylark"
	java = "Java"
)

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
	tick         = 20 * time.Millisecond
)

// running is a process of either kind.
type running interface {
	Pid() int
	Kill() error
	Stop() error
}

// process is one that this package started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *process) Pid() int { return p.cmd.Process.Pid }

func (p *process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

func (p *process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("process %d did not end on SIGTERM: %w", p.Pid(), errors.Join(p.Kill()))
	}
}

// spawn starts a process whose output goes to a log, in the namespace of the thread it is called on.
func spawn(log, name string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // ends by a signal
		close(p.done)
	}()
	return p, nil
}

// server is one name server, controller or broker, which may be running.
type server struct {
	c     *cluster
	role  string // namesrv, controller or broker
	kind  string
	node  *netNode
	id    int // of a broker or controller, from 1 on
	dir   string
	port  int
	props map[string]string
	p     running
	alive bool
}

func (s *server) addr() string   { return s.node.addr(s.port) }
func (s *server) String() string { return s.node.name }

// start runs the server in its namespace. A Java server listens when it returns.
func (s *server) start() error {
	err := s.c.net.within(s.node, func() (err error) {
		if s.kind == java {
			s.p, err = s.startJava()
			return err
		}
		conf := filepath.Join(s.dir, s.role+".conf")
		if err := writeProperties(conf, s.props); err != nil {
			return err
		}
		s.p, err = spawn(filepath.Join(s.dir, s.role+".log"), os.Getenv(envBinary), s.role, "-c", conf)
		return err
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", s, err)
	}
	s.alive = true
	return nil
}

func (s *server) startJava() (running, error) {
	work, err := workDir()
	if err != nil {
		return nil, err
	}
	j := javaoracle.Server{CacheDir: work, Dir: s.dir, Bind: s.node.ip(), Namesrv: s.c.namesrv.addr(),
		NamesrvPort: s.port, BrokerPort: s.port, Properties: s.props, HeapMiB: heapMiB}
	switch s.role {
	case "namesrv":
		return j.StartNamesrv(s.c.ctx)
	case "controller":
		return j.StartController(s.c.ctx, s.port)
	default:
		return j.StartBroker(s.c.ctx)
	}
}

func writeProperties(file string, props map[string]string) error {
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(props)) {
		fmt.Fprintf(&text, "%s=%s\n", k, props[k])
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}

// kill ends the process as kill -9 does.
func (s *server) kill() error {
	s.alive = false
	return s.p.Kill()
}

// signal sends SIGSTOP or SIGCONT.
func (s *server) signal(sig syscall.Signal) error { return syscall.Kill(s.p.Pid(), sig) }

// mount gives a broker a disk of its own: memory, small enough to be filled.
func (s *server) mount() error {
	dir := filepath.Join(s.dir, "store")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(diskBytes))
}

func (s *server) unmount() error { return unix.Unmount(filepath.Join(s.dir, "store"), unix.MNT_DETACH) }

// fill takes what is left of the disk, until free.
func (s *server) fill() error {
	dir := filepath.Join(s.dir, "store")
	f, err := os.Create(filepath.Join(dir, ballast))
	if err != nil {
		return err
	}
	defer f.Close()
	size := int64(0)
	for step := int64(64 << 20); step >= 4096; { // the broker takes some meanwhile
		switch err := unix.Fallocate(int(f.Fd()), 0, size, step); err {
		case nil:
			size += step
		case unix.ENOSPC:
			step /= 2
		default:
			return err
		}
	}
	return nil
}

func (s *server) free() error { return os.Remove(filepath.Join(s.dir, "store", ballast)) }

const (
	heapMiB   = 384 // of a Java server
	diskBytes = 512 << 20
	ballast   = "ballast"
)

// autopsy keeps the store of a broker, and has a process of ours write what it does into its log.
func (s *server) autopsy() {
	if *flagKeep == "" {
		return
	}
	if s.role == "broker" {
		_ = run("cp", "-a", "--sparse=always", filepath.Join(s.dir, "store"), filepath.Join(s.dir, "store-kept"))
	}
	if p, ok := s.p.(*process); ok {
		_ = s.signal(syscall.SIGCONT)
		_ = s.signal(syscall.SIGQUIT)
		select {
		case <-p.done:
		case <-time.After(stopTimeout):
		}
	}
}

// logTail is the end of the server's log.
func (s *server) logTail() string {
	b, err := os.ReadFile(filepath.Join(s.dir, s.role+".log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-3000):])
}
