package suite

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
)

// Host is the machine, and the build of this program.
type Host struct {
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	CPU     string `json:"cpu"`    // model
	Cores   int    `json:"cores"`  // that the process may use
	Memory  string `json:"memory"` // of the machine
	Kernel  string `json:"kernel"`
	Go      string `json:"go"`
	Commit  string `json:"commit"` // of the suite's own build
	PGO     bool   `json:"pgo"`    // built with a profile
	LoadAvg string `json:"load_average"`
}

func hostFacts() Host {
	h := Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(),
		CPU: fileField("/proc/cpuinfo", "model name"), Memory: fileField("/proc/meminfo", "MemTotal"),
		Kernel: "unknown", Commit: "unknown", LoadAvg: "unknown"}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		h.Kernel = strings.TrimSpace(string(b))
	} else if b, err := exec.Command("uname", "-r").Output(); err == nil {
		h.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		h.LoadAvg = strings.Join(strings.Fields(string(b))[:3], " ")
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		modified := ""
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				h.Commit = s.Value
			case "vcs.modified":
				if s.Value == "true" {
					modified = " with changes"
				}
			case "-pgo":
				h.PGO = true
			}
		}
		h.Commit += modified
	}
	return h
}

// fileField is the first "name: value" of a file.
func fileField(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if key, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}
