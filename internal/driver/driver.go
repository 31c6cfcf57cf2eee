// Package driver keeps track of which goroutine drives a world, and lets other goroutines
// wake it.
package driver

import (
	"bytes"
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/bell"
)

// A Driver is a world's lock that knows which goroutine holds it. At most one goroutine is between
// Enter and Exit.
//
// Its methods may be called concurrently, but only the goroutine that entered may call Exit.
type Driver struct {
	held    atomic.Bool   // a goroutine is between Enter and Exit
	last    atomic.Uint64 // ID of the last goroutine that entered to drive the world; 0 if none did
	next    atomic.Uint64 // ID for the next Enter to use, set by DrivenBy; 0 if there is none
	resting atomic.Bool   // the driving goroutine is waiting for Wake
	stack   [64]byte      // scratch space for goroutineID; used between Enter and Exit
	wake    bell.Bell
}

// New returns a Driver that no goroutine has entered.
func New() *Driver { return &Driver{wake: bell.New()} }

// Enter takes the lock and returns true, or returns false at once if the lock is held. If drives is
// true, the calling goroutine drives the world from now on, and Inside compares later callers with
// it.
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

// DrivenBy sets the ID of the goroutine that will next call Enter(true), as returned by Goroutine,
// so that a goroutine that drives many worlds needs to get its ID only once. The ID applies only to
// the next Enter(true), even if that fails.
func (d *Driver) DrivenBy(goroutine uint64) { d.next.Store(goroutine) }

// Goroutine returns the ID of the calling goroutine.
func Goroutine() uint64 { return goroutineID(new([64]byte)) }

// Exit releases the lock.
func (d *Driver) Exit() { d.held.Store(false) }

// Rest is called with true by the driving goroutine before it waits for Wake, and with false
// afterwards. In between, any caller of Inside must be another goroutine, so Inside needn't get its
// ID.
func (d *Driver) Rest(on bool) { d.resting.Store(on) }

// Inside reports whether the calling goroutine is the one that drove the world last.
func (d *Driver) Inside() bool {
	return !d.resting.Load() && d.last.Load() == goroutineID(new([64]byte))
}

// Outside reports whether a goroutine other than the caller drove the world last. Like Inside, it
// is false if none did.
func (d *Driver) Outside() bool { return d.last.Load() != 0 && !d.Inside() }

// Wake returns the channel on which the driving goroutine waits. All calls of Signal before a
// receive together send one value.
func (d *Driver) Wake() <-chan struct{} { return d.wake }

// Signal wakes the driving goroutine. It never blocks.
func (d *Driver) Signal() { d.wake.Ring() }

// goroutineID returns the runtime's ID of the calling goroutine, which the runtime never reuses. It
// takes about 10 µs, once in each Dispatch.
//
// The ID is needed because a call that waits for the world would wait forever on the world's own
// goroutine, so it must return an error there. The only alternative in Go would be a context, which
// every handler would have to pass on for this check alone.
func goroutineID(buf *[64]byte) uint64 {
	head := buf[:runtime.Stack(buf[:], false)] // "goroutine 18 [running]:…"
	head, _, _ = bytes.Cut(bytes.TrimPrefix(head, []byte("goroutine ")), []byte(" "))
	id, _ := strconv.ParseUint(string(head), 10, 64)
	return id
}
