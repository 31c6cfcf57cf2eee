// Package driver says which goroutine drives a world, and is how the others wake it.
package driver

import (
	"bytes"
	"runtime"
	"strconv"
	"sync/atomic"
)

// Driver is the seat of the goroutine that drives a world. Its methods are safe from any goroutine, but for Exit, which is for the one that
// entered.
type Driver struct {
	held  atomic.Bool   // from Enter to Exit
	last  atomic.Uint64 // id of the goroutine that drove last
	rests atomic.Bool   // that goroutine waits for a wake, so it is not the one that asks
	stack [64]byte      // scratch of Enter
	wake  chan struct{} // capacity 1
}

// New returns a seat that nobody has.
func New() *Driver { return &Driver{wake: make(chan struct{}, 1)} }

// Enter takes the seat. drives says that the calling goroutine is the world's from now on. It is false when another has it.
func (d *Driver) Enter(drives bool) (ok bool) {
	if !d.held.CompareAndSwap(false, true) {
		return false
	}
	if drives {
		d.last.Store(goroutineID(&d.stack))
	}
	return true
}

// Exit leaves it.
func (d *Driver) Exit() { d.held.Store(false) }

// Rest says that the goroutine that drives waits from now on, or no longer. While it waits Inside is cheap.
func (d *Driver) Rest(on bool) { d.rests.Store(on) }

// Inside reports whether the caller is on the goroutine that drove the world last.
func (d *Driver) Inside() bool {
	return !d.rests.Load() && d.last.Load() == goroutineID(new([64]byte))
}

// Wake is what the driver waits for: it receives after a Signal.
func (d *Driver) Wake() <-chan struct{} { return d.wake }

// Signal wakes the driver, once for any number of calls.
func (d *Driver) Signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// goroutineID returns the runtime's number of the calling goroutine; no two ever have the same. It takes about 10 µs, once a
// Dispatch, and is the only way to tell a call that waits for the world from its own goroutine, which is an error, from one
// that may wait: Go has no other name for a goroutine, and a context through every handler would be for this alone.
func goroutineID(buf *[64]byte) uint64 {
	head := buf[:runtime.Stack(buf[:], false)] // "goroutine 18 [running]:…"
	head, _, _ = bytes.Cut(bytes.TrimPrefix(head, []byte("goroutine ")), []byte(" "))
	id, _ := strconv.ParseUint(string(head), 10, 64)
	return id
}
