//go:build !linux

package udp

import "time"

// TimerUnit makes every wait one for the runtime's timers, which are fine enough here.
const TimerUnit = 0

func Nap(time.Duration) bool { return false }
