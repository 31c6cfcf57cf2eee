//go:build !linux

package sealed

import "time"

// timerUnit makes every wait one for the runtime's timers, which are fine enough here.
const timerUnit = 0

func nap(time.Duration) bool { return false }
