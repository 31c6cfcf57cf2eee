// Package driver knows which goroutine drives a world, and lets other goroutines wake it.
package driver

import (
	"bytes"
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/bell"
)

// Driver is the seat of the goroutine that drives a world: one goroutine has it at a time. Its methods are safe from any goroutine,
// except Exit, which the goroutine that entered must call.
type Driver struct {
	held  atomic.Bool   // some goroutine has the seat, from Enter to Exit
	last  atomic.Uint64 // id of the goroutine that drove last
	next  atomic.Uint64 // what DrivenBy said of the next Enter; 0 = nothing
	rests atomic.Bool   // the driving goroutine waits for a wake, so the caller of Inside is another one
	stack [64]byte      // scratch of goroutineID, written by the goroutine in the seat
	wake  bell.Bell
}

// New returns a seat that nobody has.
func New() *Driver { return &Driver{wake: bell.New()} }

// Enter takes the seat; ok is false when another goroutine has it. drives says that the calling goroutine drives the world from now on,
// which Inside will recognise.
func (d *Driver) Enter(drives bool) (ok bool) {
	var id uint64
	if drives {
		id = d.next.Swap(0)
	}
	if !d.held.CompareAndSwap(false, true) {
		return false
	}
	if !drives {
		return true
	}
	if id == 0 {
		id = goroutineID(&d.stack)
	}
	d.last.Store(id)
	return true
}

// DrivenBy says which goroutine calls Enter next, to drive, as it got the number from Goroutine: so who drives many worlds asks once for all. The
// number counts for that Enter alone, also if it fails.
func (d *Driver) DrivenBy(goroutine uint64) { d.next.Store(goroutine) }

// Goroutine returns the number of the calling goroutine.
func Goroutine() uint64 { return goroutineID(new([64]byte)) }

// Exit leaves the seat.
func (d *Driver) Exit() { d.held.Store(false) }

// Rest says whether the driving goroutine waits from now on. While it waits, Inside is cheap.
func (d *Driver) Rest(on bool) { d.rests.Store(on) }

// Inside reports whether the caller is on the goroutine that drove the world last.
func (d *Driver) Inside() bool {
	return !d.rests.Load() && d.last.Load() == goroutineID(new([64]byte))
}

// Elsewhere reports whether a goroutine drives the world, or did, and the caller is on another one.
func (d *Driver) Elsewhere() bool { return d.last.Load() != 0 && !d.Inside() }

// Wake returns the channel on which the driver waits: it receives one value after any number of Signals.
func (d *Driver) Wake() <-chan struct{} { return d.wake }

// Signal wakes the driver. It never blocks.
func (d *Driver) Signal() { d.wake.Ring() }

// goroutineID returns the runtime's number of the calling goroutine, which no other goroutine ever has. It takes about 10 µs, once a
// Dispatch. A call that waits for the world is an error on the world's own goroutine and allowed elsewhere, and Go offers no other way to
// tell the two apart; a context passed through every handler would serve this check alone.
func goroutineID(buf *[64]byte) uint64 {
	head := buf[:runtime.Stack(buf[:], false)] // "goroutine 18 [running]:…"
	head, _, _ = bytes.Cut(bytes.TrimPrefix(head, []byte("goroutine ")), []byte(" "))
	id, _ := strconv.ParseUint(string(head), 10, 64)
	return id
}
