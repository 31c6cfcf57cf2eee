//go:build !linux

package udp

import "time"

// TimerUnit is 0: on these systems the runtime's timers are precise enough for
// every wait, so Nap is never used.
const TimerUnit = 0

// Nap does nothing and returns false.
func Nap(time.Duration) bool { return false }
