package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/bell"
)

const (
	// maxDelivered is the maximum number of pieces that wait for the application. Full parts then
	// use half a MiB. The rest of the content stays in the assembly, which joins small parts.
	maxDelivered = 16
	// batchBytes is the memory at which a batch of elements is full. It counts the decoded elements
	// because a large struct of zeros may have a single byte when encoded.
	batchBytes = 32 << 10
	// maxDecoded limits the memory of a transfer's batches that wait for the application.
	maxDecoded = 2 << 20
)

// A delivery is the queue between the writer of an incoming transfer and the application. Either
// the application pulls the pieces on its own goroutine, or ticks push them to its OnBatch.
//
// Its fields are guarded by incoming.mu, except onBatch and onEnd.
type delivery struct {
	in *incoming

	pieces   []piece   // in order; added by the writer, taken by the application
	ready    sync.Cond // wakes the application when there is a piece or the transfer has ended
	borrowed int64     // memory charged for fresh pieces that haven't been consumed
	onTick   bool      // ticks take the pieces and call onBatch
	read     bool      // the application has begun to take pieces

	// Set by markVerified.
	verified bool  // the digest is right, and pieces has the rest of the content
	size     int64 // of the whole content, in bytes

	// What the application has consumed.
	consumedBytes int64
	consumedUnits int64 // bytes of a blob or elements of an array, for Progress
	speed         speed // speed of consumedUnits, not counting content that was stored

	// Set by the transfer's handler. Only used on the world's goroutine.
	onBatch func(batch any) // see OnBatch
	onEnd   func(error)     // see OnEnd
}

// A piece is content for the application: a block of a blob, or a batch of array elements.
type piece struct {
	block *block // for a blob; nil for an array
	batch any    // for an array, a []T; nil for a blob

	bytes int64 // size of the content
	units int64 // bytes of a blob, or elements of an array
	cost  int64 // memory in bytes, including everything that the elements refer to

	// fresh means that the piece was decoded or read from the store, so that add must charge for
	// it. Other pieces were charged for when their parts arrived.
	fresh bool
}

// A decodeFunc decodes elements from the beginning of b: at most count elements or, if count is
// negative, all complete ones. If it returns both a piece and an error, the error is about the
// element that follows the piece.
type decodeFunc func(b []byte, count int) (piece, error)

// add passes a piece to the application. If the piece is fresh, it first waits for room.
func (d *delivery) add(p piece) error {
	in := d.in
	in.mu.Lock()
	defer in.mu.Unlock()
	for p.fresh && !in.finished && !d.borrow(p.cost) {
		// The memory is already in use, so it must be charged while we wait.
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

// room reports whether there is room for another piece. The caller holds mu.
func (d *delivery) room() bool { return len(d.pieces) < maxDelivered }

// borrow charges the account for a fresh piece, if there is room for it. The caller holds mu.
func (d *delivery) borrow(cost int64) bool {
	account := d.in.peer.account
	switch {
	case len(d.pieces) == 0:
		account.MustBorrow(cost) // without room for one piece, the transfer could never continue
	case d.borrowed+cost > maxDecoded || !account.Borrow(cost, false):
		return false
	}
	d.borrowed += cost
	return true
}

// release stops charging for p. The caller holds mu.
func (d *delivery) release(p piece) {
	switch {
	case d.in.finished:
		// The end of the transfer has freed everything.
	case p.fresh:
		d.borrowed -= p.cost
		d.in.peer.account.Repay(p.cost)
	default:
		d.in.arrival.drop(p.cost)
	}
}

// markVerified is called on the writer's goroutine when the last piece has been added and the
// digest has been verified.
func (d *delivery) markVerified(size int64) {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	d.verified = true
	d.size = size
	d.ready.Broadcast()
	d.completeIfConsumed()
}

// completeIfConsumed completes the transfer once everything has been verified and consumed. The
// caller holds mu.
func (d *delivery) completeIfConsumed() {
	if d.verified && d.consumedBytes == d.size {
		d.in.finishLocked(nil)
	}
}

// pull waits for the next piece, which the caller must pass to markConsumed when it no longer needs
// it. After the last piece, pull returns io.EOF. If the transfer failed, pull returns its error.
func (d *delivery) pull(ctx context.Context) (piece, error) {
	if p, err := d.tryPull(); err != errNoPiece {
		return p, err
	}
	if err := d.mayWait(); err != nil {
		return piece{}, err
	}

	// The end of ctx must also end the wait.
	in := d.in
	defer context.AfterFunc(ctx, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		d.ready.Broadcast()
	})()

	in.mu.Lock()
	defer in.mu.Unlock()
	in.markRead()
	for {
		p, err := d.pop()
		switch {
		case err != errNoPiece:
			return p, err
		case ctx.Err() != nil:
			return piece{}, context.Cause(ctx)
		}
		d.ready.Wait()
	}
}

// mayWait returns ErrBlocking on the world's goroutine, which must not wait for a piece.
func (d *delivery) mayWait() error {
	if d.in.peer.onWorld() {
		return fmt.Errorf("%w: reading %v: use another goroutine", ErrBlocking, &d.in.header)
	}
	return nil
}

// errNoPiece means that no piece is ready yet, and the transfer has not ended.
var errNoPiece = errors.New("stream: no piece is ready")

// tryPull is like pull, but returns errNoPiece if it would have to wait.
func (d *delivery) tryPull() (piece, error) {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	return d.pop()
}

// pop is tryPull for a caller that holds mu.
func (d *delivery) pop() (piece, error) {
	switch {
	case d.in.finished && d.in.err != nil:
		return piece{}, d.in.err
	case len(d.pieces) > 0:
		d.in.markRead()
		p := d.pieces[0]
		d.pieces[0] = piece{}
		d.pieces = d.pieces[1:]
		d.in.arrival.changed.Signal()
		return p, nil
	case d.in.finished || d.verified:
		return piece{}, io.EOF // even if the last piece is still being consumed
	}
	return piece{}, errNoPiece
}

// markConsumed is called when the application has consumed p. This may entitle the sender to more
// credit, or complete the transfer.
func (d *delivery) markConsumed(p piece) {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	d.release(p)
	d.consumedBytes += p.bytes
	d.consumedUnits += p.units
	d.measure(time.Now())
	d.in.answer.markConsumed()
	d.completeIfConsumed()
}

// measure keeps track of the speed at which content is consumed. The caller holds mu.
func (d *delivery) measure(now time.Time) {
	if d.consumedUnits <= d.in.answer.resumed {
		// Stored content arrives at the speed of the disk, which says nothing about the rest, so
		// start measuring at its end.
		d.speed.start(now, d.in.answer.resumed)
		return
	}
	d.speed.note(now, d.consumedUnits)
}

// waitingUnits returns the number of units that are waiting for the application. The caller holds
// mu.
func (d *delivery) waitingUnits() (n int64) {
	for _, p := range d.pieces {
		n += p.units
	}
	return n
}

// tick calls OnBatch, on the world's goroutine, until no batch is left or time is up. It reports
// whether batches may be left. Even if time is up already, it calls OnBatch once.
func (d *delivery) tick(timeUp func() bool) (left bool) {
	if d.onBatch == nil {
		return false
	}
	for {
		p, err := d.tryPull()
		if err != nil || !d.in.guard("OnBatch", func() { d.onBatch(p.batch) }) {
			return false
		}
		d.markConsumed(p)
		if timeUp() {
			return true
		}
	}
}

// notifyEnd calls OnEnd, at most once, if the transfer has ended. It's called when the last message
// for the sender has been sent or can no longer be sent.
func (d *delivery) notifyEnd() {
	if onEnd := d.onEnd; onEnd != nil && bell.Closed(d.in.done) {
		d.onEnd = nil
		d.in.guard("OnEnd", func() { onEnd(d.in.cause()) })
	}
}

// free is called when the transfer ends. It stops charging for all pieces. If the content is
// complete, the application may still take the remaining pieces. The caller holds mu.
func (d *delivery) free() {
	d.in.peer.account.Repay(d.borrowed)
	d.borrowed = 0
	if d.in.err != nil {
		d.pieces = nil // without calling Free, because the application may still be reading one
	}
	d.ready.Broadcast()
}
