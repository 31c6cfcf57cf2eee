package udp

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// TimerUnit is how coarse the runtime's timers are: an idle process rounds its waits up to milliseconds.
const TimerUnit = time.Millisecond

// naps counts the threads that sleep in the kernel.
var naps atomic.Int32

// Nap sleeps with the precision of the kernel, at the price of a thread. It refuses when as many do as there are cores.
func Nap(d time.Duration) bool {
	defer naps.Add(-1)
	if naps.Add(1) > int32(runtime.GOMAXPROCS(0)) {
		return false
	}
	t := unix.NsecToTimespec(int64(d))
	return unix.Nanosleep(&t, nil) == nil
}
