package stream

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/bell"
)

const (
	// maxDelivered is how many pieces may wait for the application: half a MiB of full parts. Other content stays in the assembly, which
	// gathers small parts.
	maxDelivered = 16
	// batchBytes is the memory after which a batch takes no more elements: one byte on the wire may be a large struct of zeros.
	batchBytes = 32 << 10
	// maxDecoded is the most memory of all batches of a transfer that wait for the application.
	maxDecoded = 2 << 20
)

// delivery holds the pieces of an incoming transfer between its writer and the application, which pulls them on a goroutine of its own, or
// lets the tick push them to OnBatch. incoming.mu guards its fields, except push and ended.
type delivery struct {
	in *incoming

	ready    sync.Cond // wakes the application: there is a piece, or the transfer ended
	pieces   []piece   // in order; the writer adds, the application takes
	borrowed int64     // memory of fresh pieces that are not consumed
	verified bool      // the digest was right; pieces has all that is left
	size     int64     // of the whole, once verified
	onTick   bool      // the tick takes the pieces, for OnBatch
	read     bool      // somebody has begun to take them

	position int64 // bytes that the application has consumed
	units    int64 // bytes of a blob or elements of an array that it has consumed, for Progress
	speed    speed // of units, above what the store had

	// Owned by the world's goroutine, and set by the handler.
	push  func(batch any) // OnBatch
	ended func(error)     // OnEnd
}

// piece is content for the application: a block of a blob, or a batch of an array's elements.
type piece struct {
	block *block // of a blob, else nil
	batch any    // of an array, a []T
	bytes int64  // of content
	units int64  // bytes of a blob, or elements
	cost  int64  // memory, with all that elements refer to
	fresh bool   // decoded, or read from the store: charged by add; a block of parts was charged when it arrived
}

// decodeFunc decodes elements at the start of b: at most count of them, or as many as are whole when count is negative.
// An error is about the element that follows the decoded ones.
type decodeFunc func(b []byte, count int) (piece, error)

// add gives a piece to the application. A fresh one first waits for room; it is held meanwhile, and charged.
func (d *delivery) add(p piece) error {
	in := d.in
	in.mu.Lock()
	defer in.mu.Unlock()
	for p.fresh && !in.finished && !d.borrow(p.cost) {
		in.peer.account.MustBorrow(p.cost)
		in.arrival.changed.Wait()
		in.peer.account.Repay(p.cost)
	}
	if in.finished {
		return in.endedLocked()
	}
	d.pieces = append(d.pieces, p)
	d.ready.Signal()
	if d.onTick {
		in.peer.wake()
	}
	return nil
}

// room reports whether one more piece may wait. The caller holds the lock.
func (d *delivery) room() bool { return len(d.pieces) < maxDelivered }

// borrow charges a fresh piece, if there is room; the first piece always has room. The caller holds the lock.
func (d *delivery) borrow(cost int64) bool {
	account, first := d.in.peer.account, len(d.pieces) == 0
	switch {
	case first:
		account.MustBorrow(cost)
	case d.borrowed+cost > maxDecoded || !account.Borrow(cost, false):
		return false
	}
	d.borrowed += cost
	return true
}

// release gives back the memory of p, unless the end of the transfer has given back all. The caller holds the lock.
func (d *delivery) release(p piece) {
	switch {
	case d.in.finished:
	case p.fresh:
		d.borrowed -= p.cost
		d.in.peer.account.Repay(p.cost)
	default:
		d.in.arrival.consumed(p.cost)
	}
}

// verify notes, on the writer's goroutine, that all was delivered and has the digest that the sender gave.
func (d *delivery) verify(size int64) {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	d.verified, d.size = true, size
	d.ready.Broadcast()
	d.complete()
}

// complete ends the transfer well when all of it was consumed. The caller holds the lock.
func (d *delivery) complete() {
	if d.verified && d.position == d.size {
		d.in.finishLocked(nil)
	}
}

// pull waits for the next piece, which the caller gives back by consumed. It returns io.EOF after the last one, or the error
// of the transfer.
func (d *delivery) pull(ctx context.Context) (piece, error) {
	if p, ok, err := d.tryPull(); ok || err != nil {
		return p, err
	}
	in := d.in
	if in.peer.streams.world.Inside() {
		return piece{}, fmt.Errorf("%w: reading %v; read on another goroutine", ErrBlocking, &in.header)
	}

	defer context.AfterFunc(ctx, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		d.ready.Broadcast()
	})()

	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		p, ok, err := d.pop()
		switch {
		case ok || err != nil:
			return p, err
		case ctx.Err() != nil:
			return piece{}, context.Cause(ctx)
		}
		d.ready.Wait()
	}
}

// tryPull is pull without waiting.
func (d *delivery) tryPull() (piece, bool, error) {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	return d.pop()
}

// pop takes the next piece, if there is one. The caller holds the lock.
func (d *delivery) pop() (piece, bool, error) {
	d.in.readerCame()
	switch {
	case d.in.finished && d.in.err != nil:
		return piece{}, false, d.in.err
	case len(d.pieces) > 0:
		p := d.pieces[0]
		d.pieces[0] = piece{}
		d.pieces = d.pieces[1:]
		d.in.arrival.changed.Signal()
		return p, true, nil
	case d.in.finished || d.verified:
		return piece{}, false, io.EOF
	}
	return piece{}, false, nil
}

// consumed notes that the application has taken p: that moves the credit on, and may complete the transfer.
func (d *delivery) consumed(p piece) {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	d.release(p)
	d.position += p.bytes
	d.units += p.units
	d.measure(time.Now())
	d.in.answer.consumed()
	d.complete()
}

// measure notes how much was consumed. What the store had comes as fast as a disk, and says nothing about the rest: the speed begins after it.
// The caller holds the lock.
func (d *delivery) measure(now time.Time) {
	if d.units <= d.in.answer.resumed {
		d.speed.start(now, d.in.answer.resumed)
		return
	}
	d.speed.note(now, d.units)
}

// waiting returns how many units wait for the application. The caller holds the lock.
func (d *delivery) waiting() (n int64) {
	for _, p := range d.pieces {
		n += p.units
	}
	return n
}

// tick runs OnBatch, on the world's goroutine, until there is no batch or time is up. It reports whether batches may be left.
func (d *delivery) tick(timeUp func() bool) (left bool) {
	for d.push != nil && !left {
		p, ok, _ := d.tryPull()
		if !ok {
			break
		}
		if !d.in.guard("OnBatch", func() { d.push(p.batch) }) {
			break
		}
		d.consumed(p)
		left = timeUp()
	}
	return left
}

// tellEnd runs OnEnd once, when the transfer has ended and the sender was sent word of it, or cannot be any more.
func (d *delivery) tellEnd() {
	if ended := d.ended; ended != nil && bell.Closed(d.in.done) {
		d.ended = nil
		d.in.guard("OnEnd", func() { ended(d.in.cause()) })
	}
}

// free gives all memory back, at the end of the transfer. What is complete can still be read. The caller holds the lock.
func (d *delivery) free() {
	d.in.peer.account.Repay(d.borrowed)
	d.borrowed = 0
	if d.in.err != nil {
		d.pieces = nil // not freed: a reader may still use one
	}
	d.ready.Broadcast()
}
