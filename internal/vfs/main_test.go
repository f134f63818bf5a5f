package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// childEnv tells the re-executed test binary which part it plays; see lockChild.
const childEnv = "SKYLARK_VFS_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		os.Exit(lockChild(role, os.Args[1]))
	}
	goleak.VerifyTestMain(m)
}

// lockChild is the other process of the lock tests. It prints "locked" or "refused"; having got the lock it
// keeps it until its standard input ends. Role "raw" does what the JVM does, without our code: open,
// fcntl(F_SETLK) on byte 0.
func lockChild(role, name string) int {
	var err error
	switch role {
	case "raw":
		var f *os.File
		if f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
			break
		}
		defer f.Close()
		record := unix.Flock_t{Type: unix.F_WRLCK, Start: 0, Len: 1}
		if err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &record); err == unix.EAGAIN || err == unix.EACCES {
			err = ErrLocked
		}
	default:
		_, err = OS.Lock(name)
	}
	switch {
	case errors.Is(err, ErrLocked):
		fmt.Println("refused")
		return 0
	case err != nil:
		fmt.Println(err)
		return 1
	}
	fmt.Println("locked")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
	}
	return 0
}
