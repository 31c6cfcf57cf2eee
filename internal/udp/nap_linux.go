package udp

import (
	"time"

	"golang.org/x/sys/unix"
)

// TimerUnit is how coarse the runtime's timers are: an idle process rounds its waits up to milliseconds.
const TimerUnit = time.Millisecond

// Nap sleeps with the precision of the kernel, at the price of a thread and, until the runtime takes it back, of a processor.
func Nap(d time.Duration) bool {
	t := unix.NsecToTimespec(int64(d))
	return unix.Nanosleep(&t, nil) == nil
}
