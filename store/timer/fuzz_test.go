package timer

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"skylark/internal/vfs"
)

// FuzzFiles overwrites a piece of one of the timer's files of a stopped broker. Whatever is there, the next start comes up
// or refuses with an error, nothing panics or hangs, and what is put then is delivered.
func FuzzFiles(f *testing.F) {
	f.Add(uint8(0), uint32(0), []byte{0})
	f.Add(uint8(0), uint32(52+12), []byte{0xff, 0xff, 0xff, 0xff})
	f.Add(uint8(0), uint32(4), []byte{0, 0, 0, 0, 0, 0, 0, 52})
	f.Add(uint8(1), uint32(0), []byte("garbage"))
	f.Add(uint8(1), uint32(16), []byte{0, 0, 0, 0, 0, 0, 1, 0})
	f.Add(uint8(2), uint32(0), []byte{0, 0, 0, 0, 0, 0, 0, 1})
	f.Add(uint8(2), uint32(8), []byte{0x7f, 0, 0, 0, 0, 0, 0, 1})
	f.Add(uint8(2), uint32(16), []byte{0x7f, 0, 0, 0, 0, 0, 0, 1})
	f.Add(uint8(3), uint32(0), []byte("{"))
	f.Fuzz(func(t *testing.T, which uint8, at uint32, junk []byte) {
		synctest.Test(t, func(t *testing.T) { fuzzFile(t, int(which), int64(at), junk) })
	})
}

func fuzzFile(t *testing.T, which int, at int64, junk []byte) {
	fsys := newFS(t)
	s := open(t, setup{fs: fsys})
	for i := range 25 {
		s.put(fmt.Sprint("m", i), time.Duration(3+i)*time.Second)
	}
	after(12 * time.Second)
	used := time.Now().UnixMilli() / 1000 % testSlots * slotBytes // where the wheel is in use
	s.stop()
	name := []string{"timerlog/00000000000000000000", "timerwheel", "config/timercheck", "config/timermetrics"}[which%4]
	file, err := fsys.OpenReadWrite("/data/" + name)
	require.NoError(t, err)
	info, err := file.Stat()
	require.NoError(t, err)
	if which%4 == 1 {
		at = used + at%1024
	}
	if at %= info.Size(); at+int64(len(junk)) > info.Size() {
		junk = junk[:info.Size()-at]
	}
	_, err = file.WriteAt(junk, at)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	s = prepare(t, setup{fs: vfs.FS(fsys)})
	if s.Load() != nil || s.Start() != nil {
		return
	}
	s.put("after", 5*time.Second)
	after(2 * time.Minute)
	require.Contains(t, s.delivered(), "after")
	s.stop()
}
