package udp

import (
	"time"

	"golang.org/x/sys/unix"
)

// TimerUnit is the resolution of the runtime's timers. In an idle process, waits are rounded
// up to milliseconds.
const TimerUnit = time.Millisecond

// Nap sleeps with the kernel's precision. It occupies a thread and, until the runtime takes that
// back, a processor. It returns false if the sleep was interrupted.
func Nap(d time.Duration) bool {
	t := unix.NsecToTimespec(int64(d))
	return unix.Nanosleep(&t, nil) == nil
}
