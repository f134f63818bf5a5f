//go:build interop && linux

package failover

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"skylark/internal/javaoracle"
	"skylark/test/internal/rig"
)

var (
	flagRounds = flag.Int("rounds", 4, "faults of TestRounds")
	flagSeed   = flag.Uint64("seed", 1, "where the faults of TestRounds come from")
	flagOnly   = flag.String("only", "", "faults that TestRounds may take, joined by semicolons; all if empty")
	flagJava   = flag.Bool("java", true, "producers and consumers of Java beside ours")
	flagMixed  = flag.Bool("mixed", false, "every second broker of TestRounds is Java's")
	flagConf   = flag.String("conf", "", "further settings of brokers: key=value, joined by semicolons")
	flagKills  = flag.Int("kills", 0, "kill -9 of the master for each group of TestKills; 0 skips it")
	flagKeep   = flag.String("keep", "", "directory for logs; they stay there")
	flagOut    = flag.String("out", "", "file for the table of TestKills")
)

// The environment tells the binary in the namespaces what was found outside.
const (
	envInside = "SKYLARK_FAILOVER_INSIDE"
	envBinary = "SKYLARK_FAILOVER_BINARY"
	envSkip   = "SKYLARK_FAILOVER_SKIP"
)

// TestMain runs the tests in new namespaces: whatever they do to the network or mount ends with their first process, and so
// do all processes they started, also when the test is killed.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(envInside) != "" {
		if err := settleIn(); err != nil {
			fmt.Fprintln(os.Stderr, "failover:", err)
			os.Exit(1)
		}
		goleak.VerifyTestMain(m)
		return
	}
	if why := missing(); why != "" {
		_ = os.Setenv(envSkip, why)
		os.Exit(m.Run())
	}
	code, err := outside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		code = 1
	}
	os.Exit(code)
}

// missing tells why the tests cannot run here.
func missing() string {
	if os.Geteuid() != 0 {
		return "network namespaces need root"
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return "no ip (iproute2) here"
	}
	try := exec.Command("ip", "link", "add", "failover0", "type", "veth", "peer", "name", "failover1")
	try.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	if out, err := try.CombinedOutput(); err != nil {
		return fmt.Sprintf("no namespaces with veth links here: %v: %s", err, strings.TrimSpace(string(out)))
	}
	return ""
}

// outside fetches and builds what takes the network, and starts this binary again.
func outside() (code int, err error) {
	ctx := context.Background()
	work, err := rig.FindWorkDir()
	if err != nil {
		return 1, err
	}
	bin, err := rig.FindBinary(work)
	if err != nil {
		return 1, err
	}
	if _, err := javaoracle.Jars(ctx, work, javaoracle.Version53); err != nil {
		return 1, err
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), envInside+"=1", envBinary+"="+bin)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil {
			return 1, err
		}
		return max(1, cmd.ProcessState.ExitCode()), nil
	}
	return 0, nil
}

// settleIn makes mounts private and shows the processes of the namespace in /proc.
func settleIn() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// skipIfMissing skips a test on a machine that cannot run it.
func skipIfMissing(t *testing.T) {
	t.Helper()
	if why := os.Getenv(envSkip); why != "" {
		t.Skip(why)
	}
}
