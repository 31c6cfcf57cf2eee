//go:build !unix

package scenario

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
