package vfs

import "golang.org/x/sys/unix"

// The numbers of ioprio_set(2), which x/sys does not have.
const (
	ioprioWhoProcess = 1
	ioprioClassBE    = 2
	ioprioClassShift = 13
	ioprioLowest     = 7
)

// LowerIOPriority gives the calling thread the lowest best-effort priority: what it reads waits for what others read and
// write, where the disk's scheduler looks at priorities (bfq, mq-deadline). The caller has locked its goroutine to the
// thread. A kernel that refuses is as good as a scheduler that does not look.
func LowerIOPriority() {
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, ioprioClassBE<<ioprioClassShift|ioprioLowest)
}
