package goruntime

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// noLimit: cgroup v1 says "no limit" with a number close to 2^63.
const noLimit = 1 << 60

// containerMemory is the smallest memory limit of the process's control groups, in bytes, and the file that sets it; 0
// without one. Both versions of cgroups are looked at, the process's own group and all above it, as the kernel does. root
// is where the file system begins ("/").
func containerMemory(root string) (limit int64, source string) {
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0, ""
	}
	for _, m := range cgroupMounts(root) {
		file := "memory.max"
		if m.v1 {
			file = "memory.limit_in_bytes"
		}
		group, ok := groupOf(groups, m.v1)
		if !ok {
			continue
		}
		// In a container the group is often told as the host names it, while the mount shows it as its root.
		group = strings.TrimPrefix(group, strings.TrimSuffix(m.root, "/"))
		for {
			name := filepath.Join(m.point, group, file)
			if n := readLimit(filepath.Join(root, name)); n > 0 && (limit == 0 || n < limit) {
				limit, source = n, name
			}
			if group == "" || group == "/" || group == "." {
				break
			}
			group = filepath.Dir(group)
		}
	}
	return limit, source
}

func readLimit(name string) int64 {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64) // "max" is none
	if err != nil || n >= noLimit {
		return 0
	}
	return n
}

// cgroupMount is where a hierarchy with the memory controller is mounted, and which of its groups the mount shows.
type cgroupMount struct {
	point, root string
	v1          bool
}

// cgroupMounts reads /proc/self/mountinfo: "31 23 0:28 ROOT POINT options... - TYPE SOURCE SUPEROPTIONS".
func cgroupMounts(root string) (out []cgroupMount) {
	f, err := os.Open(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		before, after, ok := strings.Cut(s.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		m := cgroupMount{root: left[3], point: left[4], v1: right[0] == "cgroup"}
		if right[0] == "cgroup2" || m.v1 && hasWord(right[2], "memory") {
			out = append(out, m)
		}
	}
	return out
}

// groupOf finds the process's group: "0::PATH" in version 2, "4:memory:PATH" in version 1.
func groupOf(groups []byte, v1 bool) (string, bool) {
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && (!v1 && parts[0] == "0" && parts[1] == "" || v1 && hasWord(parts[1], "memory")) {
			return parts[2], true
		}
	}
	return "", false
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
