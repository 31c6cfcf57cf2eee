//go:build race

package testkit

// Race reports whether the race detector is on, in which case sync.Pool drops some of its values,
// so memory isn't always reused.
const Race = true
