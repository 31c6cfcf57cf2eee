//go:build !race

package input_test

import "time"

// stretch is how long a weather lasts, and lenient how many times as few as a
// long stretch has may miss their tick.
const (
	stretch = 2 * time.Minute
	lenient = 1
)
