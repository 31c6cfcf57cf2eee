//go:build !linux

package udp

import "time"

// TimerUnit is 0, because the runtime's timers are precise enough on these systems.
const TimerUnit = 0

// Nap returns false at once. It is never used, because TimerUnit is 0.
func Nap(time.Duration) bool { return false }
