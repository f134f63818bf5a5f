package main

import (
	"context"
	"log/slog"

	"skylark/config"
	"skylark/internal/clock"
	"skylark/internal/goruntime"
)

// startProcess sets up what belongs to the process and not to a server in it: collector, memory limit, profiles. stop
// ends it with a line about what collector and scheduler did.
func (f *flags) startProcess(log *slog.Logger, reserved int64) (stop func(), err error) {
	stopPprof, err := startPprof(f.pprof, log)
	if err != nil {
		return nil, err
	}
	tuner := goruntime.Tune(goruntime.Options{Clock: clock.System, Log: log, Reserved: reserved})
	return func() {
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
