//go:build unix

package scenario

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time that this process has used, in user and kernel mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
