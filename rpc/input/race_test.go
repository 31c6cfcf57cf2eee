//go:build race

package input_test

import "time"

// Under the race detector, which makes all ten times slower, stretches of play
// are short, and a few more may miss their tick of it.
const (
	stretch = 20 * time.Second
	lenient = 3
)
