//go:build !race

package testkit

// Race is whether the race detector watches: sync.Pool forgets some of what it is given then, so that memory is not always used again.
const Race = false
