package javaoracle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Version53 is the release the golden files come from. No server jars of 4.9 are published, so the 4.9 side
// is its clients alone.
const Version53 = "5.3.3"

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
)

// Server is what the Java processes of one name server and broker are started with.
type Server struct {
	// Version is the release, Version53 if empty.
	Version string
	// CacheDir holds the jars, in a directory for each version.
	CacheDir string
	// Dir is the working directory: conf, home, store and the logs of the processes.
	Dir string
	// Bind is the address the processes listen on, "127.0.0.1" if empty.
	Bind string
	// Advertise is the address the broker tells the name server, Bind if empty.
	Advertise string
	// Namesrv is the address of the name server for the broker: host:port, Bind:NamesrvPort if empty.
	Namesrv string
	// NamesrvPort and BrokerPort are the listening ports; the broker also takes BrokerPort-2 and
	// BrokerPort+1.
	NamesrvPort, BrokerPort int
	// Properties go over the broker's defaults of brokerProperties, under Java's names.
	Properties map[string]string
	// JVMFlags are further flags of both processes, such as -Drocketmq.serialize.type=ROCKETMQ.
	JVMFlags []string
	// HeapMiB is the heap of each process, 512 if 0.
	HeapMiB int
}

// Process is one running Java server.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	name string
	log  string
}

// brokerProperties are the settings of a test broker: small files, quick transaction checks, every feature
// on.
var brokerProperties = map[string]string{
	"brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerId": "0",
	"brokerRole": "ASYNC_MASTER", "mappedFileSizeCommitLog": "67108864", "mappedFileSizeConsumeQueue": "600000",
	"maxHashSlotNum": "100000",
	"maxIndexNum":    "400000", "autoCreateTopicEnable": "true", "autoCreateSubscriptionGroup": "true",
	"enablePropertyFilter": "true", "transactionTimeOut": "3000", "transactionCheckInterval": "3000",
	"traceTopicEnable": "true", "diskMaxUsedSpaceRatio": "95", "brokerFastFailureEnable": "false",
	"sendMessageThreadPoolNums": "4", "timerWheelEnable": "true",
	"recallMessageEnable": "true", "popResponseReturnActualRetryTopic": "false",
}

// StartNamesrv starts the name server and waits until it listens.
func (s Server) StartNamesrv(ctx context.Context) (*Process, error) {
	conf := map[string]string{
		"listenPort": strconv.Itoa(s.NamesrvPort), "orderMessageEnable": "true",
		"kvConfigPath":    filepath.Join(s.Dir, "kvConfig.json"),
		"configStorePath": filepath.Join(s.Dir, "namesrv.properties"),
	}
	conf["bindAddress"] = s.bind()
	return s.start(ctx, "namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup", conf, s.NamesrvPort)
}

// StartBroker starts the broker and waits until it listens.
func (s Server) StartBroker(ctx context.Context) (*Process, error) {
	conf := maps.Clone(brokerProperties)
	advertise := s.Advertise
	if advertise == "" {
		advertise = s.bind()
	}
	conf["brokerIP1"], conf["brokerIP2"] = advertise, s.bind()
	conf["namesrvAddr"] = s.Namesrv
	if s.Namesrv == "" {
		conf["namesrvAddr"] = net.JoinHostPort(s.bind(), strconv.Itoa(s.NamesrvPort))
	}
	conf["listenPort"] = strconv.Itoa(s.BrokerPort)
	conf["haListenPort"] = strconv.Itoa(s.BrokerPort + 1)
	conf["storePathRootDir"] = filepath.Join(s.Dir, "store")
	conf["storePathCommitLog"] = filepath.Join(s.Dir, "store", "commitlog")
	conf["bindAddress"] = s.bind()
	maps.Copy(conf, s.Properties)
	return s.start(ctx, "broker", "org.apache.rocketmq.broker.BrokerStartup", conf, s.BrokerPort)
}

// StartController starts a controller that is alone in its group, "g", as member n0, and waits until it listens on port. It
// leads after some seconds. Properties go over its settings.
func (s Server) StartController(ctx context.Context, port int) (*Process, error) {
	conf := map[string]string{
		"controllerDLegerGroup": "g", "controllerDLegerSelfId": "n0", "bindAddress": s.bind(),
		"controllerDLegerPeers": "n0-" + net.JoinHostPort(s.bind(), strconv.Itoa(port)),
		"controllerStorePath":   filepath.Join(s.Dir, "controller"), "mappedFileSize": "1048576",
		"configStorePath": filepath.Join(s.Dir, "controller.properties"), "rocketmqHome": s.Dir,
	}
	maps.Copy(conf, s.Properties)
	return s.start(ctx, "controller", "org.apache.rocketmq.controller.ControllerStartup", conf, port)
}

func (s Server) bind() string {
	if s.Bind == "" {
		return "127.0.0.1"
	}
	return s.Bind
}

func (s Server) start(ctx context.Context, name, class string, conf map[string]string, port int) (
	*Process, error,
) {
	version := s.Version
	if version == "" {
		version = Version53
	}
	lib, err := Jars(ctx, s.CacheDir, version)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{"conf", "home"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(conf)) {
		fmt.Fprintf(&text, "%s=%s\n", k, conf[k])
	}
	confFile := filepath.Join(s.Dir, "conf", name+".conf")
	if err := os.WriteFile(confFile, []byte(text.String()), 0o644); err != nil {
		return nil, err
	}
	heap := s.HeapMiB
	if heap == 0 {
		heap = 512
	}
	args := []string{fmt.Sprintf("-Xms%dm", heap), fmt.Sprintf("-Xmx%dm", heap), "-XX:+UseSerialGC",
		"-XX:MaxDirectMemorySize=1g", "-Duser.home=" + filepath.Join(s.Dir, "home"),
		"-Drocketmq.home.dir=" + s.Dir, "-Dio.netty.tryReflectionSetAccessible=true"}
	args = append(append(args, moduleFlags...), s.JVMFlags...)
	args = append(args, "-cp", filepath.Join(s.Dir, "conf")+":"+lib+"/*", class, "-c", confFile)
	p := &Process{name: name, log: filepath.Join(s.Dir, name+".log"), done: make(chan struct{})}
	if err := p.run(s.Dir, args); err != nil {
		return nil, err
	}
	return p, p.waitPort(ctx, net.JoinHostPort(s.bind(), strconv.Itoa(port)))
}

// moduleFlags open what the servers reach into on a JDK with modules.
var moduleFlags = []string{
	"--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
	"--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
	"--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
}

func (p *Process) run(dir string, args []string) error {
	out, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer out.Close()
	p.cmd = exec.Command("java", args...)
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), "ROCKETMQ_HOME="+dir)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for our caller, who stops us
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("javaoracle: start %s: %w", p.name, err)
	}
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	return nil
}

// waitPort returns when addr accepts a connection, or with the end of the log when the process ends before.
func (p *Process) waitPort(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("javaoracle: %s ended: %s", p.name, tail(p.log))
		case <-ctx.Done():
			err := errors.Join(ctx.Err(), p.Kill())
			return fmt.Errorf("javaoracle: %s does not listen on %s: %w", p.name, addr, err)
		}
	}
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Stop asks the process to shut down in order and kills it when it does not within 30 s.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("javaoracle: %s did not end on SIGTERM: %w", p.name, errors.Join(p.Kill()))
	}
}

// Kill ends the process at once, as kill -9.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// tail returns the last lines of a log file.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}
