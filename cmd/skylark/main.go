// Skylark is a message broker that takes the place of Apache RocketMQ's name server and broker.
//
//	skylark standalone   name server and broker in one process, data under ./data
//	skylark namesrv      name server (also as mqnamesrv)
//	skylark broker       broker (also as mqbroker)
//	skylark controller   controller: broker ids and election of masters (also as mqcontroller)
//	skylark bench        load against any RocketMQ broker
//	skylark admin        operations that mqadmin does not have: handover
//	skylark version
//
// namesrv, broker and controller take the flags of Java's start scripts: -c FILE, -n ADDRS, -p, -m.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// command is one sub-command; it returns when it has stopped.
type command struct {
	name  string
	about string
	run   func(args []string) error
}

// commands in the order of the usage text.
var commands = []command{
	{"standalone", "name server and broker in one process", runStandalone},
	{"namesrv", "name server (also as mqnamesrv)", runNamesrv},
	{"broker", "broker (also as mqbroker)", runBroker},
	{"controller", "controller: broker ids and election of masters (also as mqcontroller)", runController},
	{"bench", "load against any RocketMQ broker", runBench},
	{"admin", "operations that mqadmin does not have: handover", runAdmin},
	{"version", "print the version", runVersion},
}

// javaNames are the names under which the binary answers as Java's scripts do.
var javaNames = map[string]string{"mqbroker": "broker", "mqnamesrv": "namesrv", "mqcontroller": "controller"}

func main() {
	args := os.Args[1:]
	name, ok := javaNames[strings.TrimSuffix(filepath.Base(os.Args[0]), ".sh")]
	if !ok {
		if len(args) == 0 {
			usage()
			os.Exit(2)
		}
		name, args = args[0], args[1:]
	}
	for _, c := range commands {
		if c.name == name {
			exit(c.name, c.run(args))
		}
	}
	if name == "help" || name == "-h" || name == "--help" {
		usage()
		os.Exit(0)
	}
	fmt.Fprintf(os.Stderr, "skylark: there is no command %q\n", name)
	usage()
	os.Exit(2)
}

// exit ends the process: 0, 2 for wrong flags, 1 for everything else.
func exit(name string, err error) {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "skylark %s: %v\n", name, err)
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "skylark %s: %v\n", name, err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: skylark COMMAND [flags]; skylark COMMAND -h tells the flags")
	for _, c := range commands {
		fmt.Fprintf(os.Stderr, "  %-11s %s\n", c.name, c.about)
	}
}

// errUsage marks wrong flags or arguments.
var errUsage = errors.New("wrong usage")

func runVersion([]string) error {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				version += " " + s.Value
			}
		}
	}
	fmt.Println("skylark", version, "speaks RocketMQ V5_3_3")
	return nil
}
