//go:build !linux

package udp

import "time"

// TimerUnit is 0, because the runtime's timers are precise enough on these systems. So Nap is
// never used.
const TimerUnit = 0

// Nap does nothing and returns false.
func Nap(time.Duration) bool { return false }
