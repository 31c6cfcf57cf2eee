//go:build !race

package testkit

// Race says whether the race detector is on. If so, sync.Pool drops some of its values, so
// memory is not always reused.
const Race = false
