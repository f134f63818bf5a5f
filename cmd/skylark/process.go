package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"skylark/config"
	"skylark/internal/clock"
	"skylark/internal/goruntime"
)

// startProcess sets up what belongs to the process and not to a server in it: signals, collector, memory limit, profiles.
// A server is stopped cleanly also by a signal that comes while it starts. stop ends it with a line about what collector
// and scheduler did.
func (f *flags) startProcess(log *slog.Logger, reserved int64) (stop func(), err error) {
	stopPprof, err := startPprof(f.pprof, log)
	if err != nil {
		return nil, err
	}
	tuner := goruntime.Tune(goruntime.Options{Clock: clock.System, Log: log, Reserved: reserved})
	first, release := catchSignals()
	f.signals = first
	return func() {
		release()
		tuner.Close()
		stopPprof()
		log.LogAttrs(context.Background(), slog.LevelInfo, "go runtime, whole run", goruntime.Read().Attrs()...)
	}, nil
}

// reservedBytes is the memory outside of Go's heap that a broker takes at its start: the transient store pool.
func reservedBytes(set *config.Set) int64 {
	if s := set.Store(); s.TransientStorePoolEnable {
		return int64(s.TransientStorePoolSize) * int64(s.MappedFileSizeCommitLog)
	}
	return 0
}

// catchSignals takes SIGTERM and SIGINT. The first one is in first, the second ends the process at once.
func catchSignals() (first <-chan os.Signal, release func()) {
	raw, kept, done := make(chan os.Signal, 2), make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(raw, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for n := 0; ; n++ {
			select {
			case sig := <-raw:
				if n == 0 {
					kept <- sig
					continue
				}
				fmt.Fprintln(os.Stderr, "skylark: second signal, not waiting for a clean stop")
				os.Exit(1)
			case <-done:
				return
			}
		}
	}()
	return kept, func() {
		signal.Stop(raw)
		close(done)
	}
}
