//go:build interop

package interop

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/test/internal/rig"
)

// work is the directory for builds, logs and data.
type work struct {
	dir   string
	here  string // this package's directory
	runID string // part of the names of topics and groups, so that runs against one system do not meet
	runs  int
}

const noLogging = `<configuration><root level="OFF"/></configuration>` + "\n"

// nextRun is a run id that no program was given before.
func (w *work) nextRun() string {
	w.runs++
	return w.runID + strconv.FormatInt(int64(w.runs), 36)
}

func newWork(t *testing.T) *work {
	here, err := os.Getwd()
	require.NoError(t, err)
	w := &work{dir: rig.WorkDir(t), here: here, runID: strconv.FormatInt(time.Now().Unix(), 36)}
	for _, d := range []string{"tmp", "log", "home"} {
		require.NoError(t, os.MkdirAll(w.sub(d), 0o755))
	}
	conf := filepath.Join(w.sub("home"), "conf")
	require.NoError(t, os.MkdirAll(conf, 0o755))
	for _, name := range []string{"logback.xml", "logback_tools.xml"} { // the 4.9 tools end without theirs
		require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(noLogging), 0o644))
	}
	return w
}

func (w *work) sub(name string) string { return filepath.Join(w.dir, name) }

// build makes the client's program and returns its command line.
func (w *work) build(t *testing.T, c client) []string {
	if c.version == "" {
		bin := w.sub(c.name)
		w.execute(t, filepath.Join(w.here, c.name), "go", "build", "-trimpath", "-o", bin, ".")
		return []string{bin}
	}
	lib := w.jars(t, c)
	classes := w.compile(t, c, lib)
	program := []string{"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g",
		"-Duser.home=" + w.sub("home"), "-Drocketmq.home.dir=" + w.sub("home"),
		"-Djava.io.tmpdir=" + w.sub("tmp"), // some mqadmin commands leave files there
		"-Dlogback.configurationFile=" + filepath.Join(w.sub("home"), "conf", "logback.xml"),
		"-Drocketmq.client.localOffsetStoreDir=" + filepath.Join(w.sub("tmp"), "offsets-"+w.runID)}
	program = append(program, c.jvmFlags...)
	return append(program, "-cp", classes+":"+lib+"/*", c.mainClass)
}

// jars lets Maven fetch the client and tools of a version, once.
func (w *work) jars(t *testing.T, c client) string {
	pom := c.pom
	if pom == "" {
		pom = "pom.xml"
	}
	lib := w.sub("lib-" + c.version)
	done := filepath.Join(lib, ".done")
	if _, err := os.Stat(done); err == nil {
		return lib
	}
	w.execute(t, w.here, "mvn", "-q", "-B", "-f", filepath.Join(w.here, "java", pom), "-Dv="+c.version,
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+lib)
	require.NoError(t, os.WriteFile(done, nil, 0o644))
	return lib
}

// compile runs javac when the sources are not those of the last build.
func (w *work) compile(t *testing.T, c client, lib string) string {
	var files []string
	sum := sha256.New()
	for _, d := range c.sources {
		root := filepath.Join(w.here, "java", d)
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".java") {
				return err
			}
			files = append(files, path)
			text, err := os.ReadFile(path)
			sum.Write(text)
			return err
		}))
	}
	classes := w.sub("classes-" + c.version + "-" + hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(filepath.Join(classes, ".done")); err == nil {
		return classes
	}
	args := append([]string{"-nowarn", "-proc:none", "-d", classes, "-cp", lib + "/*"}, files...)
	w.execute(t, w.here, "javac", args...)
	require.NoError(t, os.WriteFile(filepath.Join(classes, ".done"), nil, 0o644))
	return classes
}

func (w *work) execute(t *testing.T, dir, name string, args ...string) {
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
}
