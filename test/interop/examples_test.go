//go:build interop

package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exampleLimit is the time for one program of examples/, downloads of its build included.
const exampleLimit = 5 * time.Minute

// runExamples runs the programs of the README as the README says: a producer, then a consumer.
func runExamples(t *testing.T, w *work, sys *system) {
	examples := filepath.Join(w.here, "..", "..", "examples")
	f := func(dir, want string, command ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.WaitDelay = time.Second
		timer := time.AfterFunc(exampleLimit, func() { cmd.Process.Kill() })
		defer timer.Stop()
		cmd.Dir = filepath.Join(examples, dir)
		cmd.Env = append(os.Environ(), "NAMESRV="+sys.namesrv)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", command, out)
		require.Contains(t, string(out), want)
	}
	maven := func(class, want string) {
		t.Helper()
		f("java", want, "mvn", "-q", "-B", "compile", "exec:java", "-Dexec.mainClass="+class,
			"-Dnamesrv="+sys.namesrv, "-DbuildDirectory="+w.sub("examples-java"))
	}
	maven("example.Producer", "sent 1000 messages")
	maven("example.Consumer", "received 1000 messages")
	f("go", "sent 1000 messages", "go", "run", "./producer")
	f("go", "received", "go", "run", "./consumer")
}
