package rig

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FindWorkDir gives the directory of what is fetched and built once, and makes it.
func FindWorkDir() (string, error) {
	dir, err := filepath.Abs(cmp.Or(os.Getenv("INTEROP_WORK"), "../interop/.work"))
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// WorkDir is FindWorkDir of a test.
func WorkDir(t testing.TB) string {
	t.Helper()
	dir, err := FindWorkDir()
	require.NoError(t, err)
	return dir
}

// FindBinary gives the binary under test, built into the directory work if there is none yet. An error names SKYLARK if
// that names no file.
func FindBinary(work string) (string, error) {
	bin, err := filepath.Abs(cmp.Or(os.Getenv("SKYLARK"), "../../bin/skylark"))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	} else if os.Getenv("SKYLARK") != "" {
		return "", fmt.Errorf("SKYLARK names no file: %w", err)
	}
	bin = filepath.Join(work, "skylark")
	return bin, Build(bin)
}

// Build builds the binary from the sources.
func Build(bin string) error {
	if out, err := exec.Command("go", "build", "-o", bin, "skylark/cmd/skylark").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// Binary is FindBinary of a test.
func Binary(t testing.TB) string {
	t.Helper()
	bin, err := FindBinary(WorkDir(t))
	require.NoError(t, err)
	return bin
}

// Scratch is a new directory for the stores and logs of a test: one that goes with the test, or, if keep is not empty, one
// of the test's name below keep, emptied, that stays.
func Scratch(t testing.TB, keep string) string {
	t.Helper()
	if keep == "" {
		return t.TempDir()
	}
	dir, err := filepath.Abs(filepath.Join(keep, filepath.FromSlash(t.Name())))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

// QuickJVMs has Java servers that live for seconds leave out the optimizing compiler: they gain nothing from it, and it
// takes half of their CPU time.
func QuickJVMs() {
	if err := os.Setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1"); err != nil {
		panic(err)
	}
}

// Properties is a configuration file of the servers, its keys sorted.
func Properties(props map[string]string) []byte {
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(props)) {
		fmt.Fprintf(&text, "%s=%s\n", k, props[k])
	}
	return []byte(text.String())
}

// Local is a port of the loopback interface.
func Local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
