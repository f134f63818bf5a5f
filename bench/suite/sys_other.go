//go:build !linux

package suite

import (
	"errors"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

func listenerPID(string) int { return 0 }

func evictDir(string, int) (*evicted, error) {
	return nil, errors.New("only on Linux can pages be pushed out of memory")
}
