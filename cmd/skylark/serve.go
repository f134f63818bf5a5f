package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"skylark/broker"
	"skylark/config"
	"skylark/namesrv"
	"skylark/standalone"
)

// stopTimeout bounds a clean stop after SIGTERM or SIGINT.
const stopTimeout = 30 * time.Second

// flags that Java's start scripts have too.
type flags struct {
	set       *flag.FlagSet
	file      string
	namesrv   string
	print     bool
	important bool
	log       string
	profile   string
	pprof     string
	signals   <-chan os.Signal // since startProcess
}

func newFlags(name string) *flags {
	f := &flags{set: flag.NewFlagSet(name, flag.ContinueOnError)}
	f.set.StringVar(&f.file, "c", "", "`FILE` of Java-style properties")
	f.set.StringVar(&f.namesrv, "n", "", "name server `ADDRS`, host:port separated by ;")
	f.set.BoolVar(&f.print, "p", false, "print all configuration items and exit")
	f.set.BoolVar(&f.important, "m", false, "print the important configuration items and exit")
	f.set.StringVar(&f.log, "log", "info", "`LEVELS`, e.g. info,store=debug,broker=warn")
	f.set.StringVar(&f.pprof, "pprof", "", "loopback `ADDR` to serve profiles on, e.g. 127.0.0.1:6060; off without")
	f.set.StringVar(&f.profile, "cpuprofile", "", "`FILE` for a CPU profile of the whole run, written at the end")
	return f
}

// load reads flags, file and key=value arguments into a set. done: -p or -m has printed.
func (f *flags) load(args []string, set *config.Set) (log *slog.Logger, done bool, err error) {
	if err := f.set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, false, err
		}
		return nil, false, fmt.Errorf("%w: %w", errUsage, err)
	}
	if log, err = newLogger(os.Stderr, f.log); err != nil {
		return nil, false, fmt.Errorf("%w: %w", errUsage, err)
	}
	if err := f.apply(set, log); err != nil {
		return nil, false, err
	}
	if f.print || f.important {
		return log, true, set.Print(os.Stdout, f.important)
	}
	return log, false, nil
}

// apply loads the file, then what stands behind the flags: autoCreateTopicEnable=true, as in RocketMQ's quick start.
func (f *flags) apply(set *config.Set, log *slog.Logger) error {
	var files []*config.File
	if f.file != "" {
		file, err := config.LoadFile(f.file)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	var text strings.Builder
	for _, a := range f.set.Args() {
		if !strings.Contains(a, "=") {
			return fmt.Errorf("%w: %q is neither a flag nor key=value", errUsage, a)
		}
		fmt.Fprintln(&text, a)
	}
	if f.namesrv != "" {
		fmt.Fprintf(&text, "namesrvAddr=%s\n", f.namesrv)
	}
	if text.Len() > 0 {
		file, err := config.Parse(text.String(), "command line")
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		empty, err := config.Parse("", "defaults")
		if err != nil {
			return err
		}
		files = append(files, empty)
	}
	for _, file := range files {
		warnings, err := set.Load(file)
		for _, w := range warnings {
			log.Warn("configuration: " + w.String())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func runBroker(args []string) error {
	f, set := newFlags("broker"), config.NewBrokerSet()
	log, done, err := f.load(args, set)
	if err != nil || done {
		return err
	}
	end, err := f.startProcess(log, reservedBytes(set))
	if err != nil {
		return err
	}
	defer end()
	b, err := broker.New(broker.Options{Config: set, NewEngine: newEngine(set, log), Log: log})
	if err != nil {
		return err
	}
	if err := b.Start(); err != nil {
		return err
	}
	return f.serve(log, b.Close)
}

func runNamesrv(args []string) error {
	f, set := newFlags("namesrv"), config.NewNamesrvSet()
	log, done, err := f.load(args, set)
	if err != nil || done {
		return err
	}
	end, err := f.startProcess(log, 0)
	if err != nil {
		return err
	}
	defer end()
	ns, err := namesrv.New(namesrv.Options{Config: set, ConfigFile: f.file, NewEngine: newEngine(set, log), Log: log})
	if err != nil {
		return err
	}
	if err := ns.Start(); err != nil {
		return err
	}
	if !set.Namesrv().EnableControllerInNamesrv {
		return f.serve(log, ns.Close)
	}
	c, err := startController(set, f.file, log)
	if err != nil {
		return errors.Join(err, stopNow(ns.Close))
	}
	// A controller that has failed leaves the routes alone: the name server goes on and answers for it with the reason.
	return f.serve(log, func(ctx context.Context) error { return errors.Join(c.Close(ctx), ns.Close(ctx)) })
}

func runStandalone(args []string) error {
	f := newFlags("standalone")
	data := f.set.String("data", "data", "`DIR` for everything that is kept")
	host := f.set.String("host", "", "`HOST` advertised to clients (default 127.0.0.1, or brokerIP1 of the file)")
	nsPort := f.set.Int("namesrv-port", 0, "`PORT` of the name server (default 9876, or listenPort of -namesrv-conf)")
	nsFile := f.set.String("namesrv-conf", "", "`FILE` of properties of the name server")
	set := config.NewBrokerSet()
	log, done, err := f.load(args, set)
	if err != nil || done {
		return err
	}
	ns := config.NewNamesrvSet()
	nsFlags := &flags{set: flag.NewFlagSet("namesrv", flag.ContinueOnError), file: *nsFile}
	if err := nsFlags.apply(ns, log); err != nil {
		return err
	}
	if *nsPort != 0 {
		ns.Override("listenPort", strconv.Itoa(*nsPort))
	}
	if *nsFile == "" { // what Java leaves off and its samples switch on
		ns.Override("orderMessageEnable", "true")
	}
	if f.file == "" {
		set.Override("enablePropertyFilter", "true")
	}
	if err := settleStandalone(set, ns, *data, *host); err != nil {
		return err
	}
	end, err := f.startProcess(log, reservedBytes(set))
	if err != nil {
		return err
	}
	defer end()
	sys, err := standalone.Start(standalone.Options{Namesrv: ns, Broker: set, NewEngine: newEngine(set, log), Log: log})
	if err != nil {
		return err
	}
	log.Info("ready", "namesrv", sys.NamesrvAddr(), "broker", sys.BrokerAddr(), "data", *data)
	return f.serve(log, sys.Close)
}

// settleStandalone puts all files under the data directory and, unless told otherwise, advertises the loopback address:
// a first try on one's own machine works whatever networks it has.
func settleStandalone(set, ns *config.Set, data, host string) error {
	dir, err := filepath.Abs(data)
	if err != nil {
		return err
	}
	defaults := config.NewBrokerSet().Store()
	if set.Store().StorePathRootDir == defaults.StorePathRootDir {
		set.Override("storePathRootDir", filepath.Join(dir, "store"))
	}
	nsDefaults := config.NewNamesrvSet().Namesrv()
	if ns.Namesrv().KvConfigPath == nsDefaults.KvConfigPath {
		ns.Override("kvConfigPath", filepath.Join(dir, "namesrv", "kvConfig.json"))
	}
	if n := ns.Namesrv(); n.ConfigStorePath == nsDefaults.ConfigStorePath || n.ConfigStorePath == "defaults" {
		ns.Override("configStorePath", filepath.Join(dir, "namesrv", "namesrv.properties"))
	}
	switch {
	case host != "":
		set.Override("advertiseAddr", net.JoinHostPort(host, strconv.Itoa(set.Server().ListenPort)))
	case set.Broker().BrokerIP1 == "" && set.Own().AdvertiseAddr == "":
		set.Override("brokerIP1", "127.0.0.1")
	}
	return nil
}

// serve serves until a signal, with a profile if one is wanted.
func (f *flags) serve(log *slog.Logger, stop func(context.Context) error) error {
	return f.serveUntil(log, nil, stop)
}

// serveUntil serves until a signal or the end of failed, which may be nil.
func (f *flags) serveUntil(log *slog.Logger, failed <-chan struct{}, stop func(context.Context) error) error {
	if f.profile == "" {
		return f.untilSignal(log, failed, stop)
	}
	file, err := os.Create(f.profile)
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		return errors.Join(fmt.Errorf("-cpuprofile: %w", err), stop(ctx))
	}
	err = f.untilSignal(log, failed, stop)
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}

// untilSignal serves until SIGTERM, SIGINT or the end of failed, then stops cleanly.
func (f *flags) untilSignal(log *slog.Logger, failed <-chan struct{}, stop func(context.Context) error) error {
	select {
	case sig := <-f.signals:
		log.Info("stopping", "signal", sig.String())
	case <-failed:
		log.Error("stopping after a failure")
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return stop(ctx)
}

// newLogger writes slog text to w, with a level for each part: "info,store=debug".
func newLogger(w io.Writer, levels string) (*slog.Logger, error) {
	h := &partHandler{parts: map[string]slog.Level{}}
	for word := range strings.SplitSeq(levels, ",") {
		part, text, hasPart := strings.Cut(strings.TrimSpace(word), "=")
		if !hasPart {
			part, text = "", part
		}
		var level slog.Level
		if err := level.UnmarshalText([]byte(text)); err != nil {
			return nil, fmt.Errorf("log level %q: %w", word, err)
		}
		h.parts[part] = level
	}
	h.level = h.parts[""]
	lowest := h.level
	for _, l := range h.parts {
		lowest = min(lowest, l)
	}
	h.Handler = slog.NewTextHandler(w, &slog.HandlerOptions{Level: lowest})
	return slog.New(h), nil
}

// partHandler gives loggers made With("part", name) the level of that part.
type partHandler struct {
	slog.Handler
	parts map[string]slog.Level
	level slog.Level
}

// Enabled implements slog.Handler.
func (h *partHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// WithAttrs implements slog.Handler.
func (h *partHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := &partHandler{Handler: h.Handler.WithAttrs(attrs), parts: h.parts, level: h.level}
	for _, a := range attrs {
		if l, ok := h.parts[a.Value.String()]; ok && a.Key == "part" {
			out.level = l
		}
	}
	return out
}

// WithGroup implements slog.Handler.
func (h *partHandler) WithGroup(name string) slog.Handler {
	return &partHandler{Handler: h.Handler.WithGroup(name), parts: h.parts, level: h.level}
}
