//go:build interop && linux

package failover

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skylark/internal/javaoracle"
	"skylark/test/internal/rig"
)

// The kinds of servers.
const (
	ours = "Skylark"
	java = "Java"
)

const (
	readyTimeout = 60 * time.Second
	tick         = 20 * time.Millisecond
)

// running is a process of either kind.
type running interface {
	Pid() int
	Kill() error
	Stop() error
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
	var p running
	err := s.c.net.within(s.node, func() (err error) {
		if s.kind == java {
			p, err = s.startJava()
			return err
		}
		conf := filepath.Join(s.dir, s.role+".conf")
		if err := os.WriteFile(conf, rig.Properties(s.props), 0o644); err != nil {
			return err
		}
		p, err = rig.Start(filepath.Join(s.dir, s.role+".log"), os.Getenv(envBinary), s.role, "-c", conf)
		return err
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", s, err)
	}
	s.p, s.alive = p, true
	return nil
}

func (s *server) startJava() (running, error) {
	work, err := rig.FindWorkDir()
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
	if p, ok := s.p.(*rig.Process); ok {
		_ = s.signal(syscall.SIGCONT)
		_ = s.signal(syscall.SIGQUIT)
		select {
		case <-p.Done():
		case <-time.After(rig.StopTimeout):
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
