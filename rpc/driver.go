package rpc

import (
	"bytes"
	"runtime"
	"strconv"
	"sync/atomic"
)

// driver says which goroutine drives a world, and is how the others wake it. Its methods are safe from any goroutine, but for enter and
// exit, which are the driver's.
type driver struct {
	held  atomic.Bool   // from enter to exit
	last  atomic.Uint64 // id of the goroutine that drove last
	stack [64]byte      // scratch of enter
	wake  chan struct{} // capacity 1
}

// enter claims the world. drives says that the calling goroutine is the world's from now on.
func (d *driver) enter(drives bool) {
	if !d.held.CompareAndSwap(false, true) {
		panic("rpc: the world is driven twice at once: by two goroutines, or by a handler that ticks it")
	}
	if drives {
		d.last.Store(goroutineID(&d.stack))
	}
}

func (d *driver) exit() { d.held.Store(false) }

// inside reports whether the caller is on the goroutine that drove the world last.
func (d *driver) inside() bool { return d.last.Load() == goroutineID(new([64]byte)) }

// signal wakes Run.
func (d *driver) signal() {
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
