package storetest_test

import (
	"flag"
	"fmt"
	"testing"

	"skylark/store"
	"skylark/store/storetest"
)

var (
	seed     = flag.Uint64("seed", 0, "run this script of the crash harness only")
	firstOne = flag.Uint64("firstseed", 1, "seed of the first script")
	scripts  = flag.Int("scripts", 6, "scripts of the crash harness")
	crashOps = flag.Int("crashops", 40, "operations of each script")
)

func TestCrash(t *testing.T) {
	f := func(seed uint64, flush store.FlushDiskType) {
		mode := storetest.Modes[seed%uint64(len(storetest.Modes))]
		t.Run(fmt.Sprintf("seed%d/%s/flush%d", seed, mode.Name, flush), func(t *testing.T) {
			storetest.Crash(t, storetest.CrashOptions{Seed: seed, Ops: *crashOps, Flush: flush, Change: mode.Change}, open)
		})
	}
	if *seed != 0 {
		f(*seed, store.SyncFlush)
		f(*seed, store.AsyncFlush)
		return
	}
	for i := range uint64(*scripts) {
		f(*firstOne+i, store.SyncFlush)
		f(*firstOne+i, store.AsyncFlush)
	}
}
