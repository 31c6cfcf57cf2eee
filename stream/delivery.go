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
	// maxDelivered is the maximum number of pieces that wait for the application: half a MiB
	// of full parts. Other content stays in the assembly, which joins small parts.
	maxDelivered = 16
	// batchBytes is the memory above which no more elements are added to a batch. It is the
	// size of decoded elements, because one encoded byte may be a large struct of zeros.
	batchBytes = 32 << 10
	// maxDecoded limits the memory of all batches of a transfer that wait for the application.
	maxDecoded = 2 << 20
)

// A delivery holds the pieces of an incoming transfer between its writer and the application.
// The application pulls them on a goroutine of its own, or has the tick push them to OnBatch.
// incoming.mu guards the fields, except push and ended.
type delivery struct {
	in *incoming

	ready    sync.Cond // wakes the application when there is a piece, or the transfer has ended
	pieces   []piece   // in order; added by the writer, taken by the application
	borrowed int64     // memory of fresh pieces that were not consumed yet
	verified bool      // the digest is right, and pieces holds all content that is left
	size     int64     // size of all content; set if verified
	onTick   bool      // the tick takes the pieces, for OnBatch
	read     bool      // the application has begun to take pieces

	position int64 // bytes that the application consumed
	units    int64 // bytes of a blob or elements of an array that it consumed, for Progress
	speed    speed // speed of units, without content that was stored

	// Set by the handler, and used by the world's goroutine only.
	push  func(batch any) // OnBatch
	ended func(error)     // OnEnd
}

// A piece is content for the application: a block of a blob, or a batch of array elements.
type piece struct {
	block *block // the content of a blob; nil for an array
	batch any    // the elements of an array, a []T
	bytes int64  // bytes of content
	units int64  // bytes of a blob, or elements of an array
	cost  int64  // memory in bytes, including everything that elements refer to
	// The piece was decoded or read from the store, and add charges it. Other blocks were
	// charged when their parts arrived.
	fresh bool
}

// A decodeFunc decodes elements from the beginning of b: at most count of them or, if count is
// negative, as many as are complete. An error is about the element after the decoded ones.
type decodeFunc func(b []byte, count int) (piece, error)

// add passes a piece to the application. A fresh piece first waits for room. It is charged
// while it waits, because its memory is already in use.
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

// room reports whether one more piece may wait. The caller holds mu.
func (d *delivery) room() bool { return len(d.pieces) < maxDelivered }

// borrow charges a fresh piece if there is room for it. For the first piece there always is.
// The caller holds mu.
func (d *delivery) borrow(cost int64) bool {
	account := d.in.peer.account
	switch {
	case len(d.pieces) == 0:
		account.MustBorrow(cost)
	case d.borrowed+cost > maxDecoded || !account.Borrow(cost, false):
		return false
	}
	d.borrowed += cost
	return true
}

// release frees the memory of p, unless the end of the transfer has freed everything. The
// caller holds mu.
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

// verify is called on the writer's goroutine when all content was delivered and the digest is
// right.
func (d *delivery) verify(size int64) {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	d.verified = true
	d.size = size
	d.ready.Broadcast()
	d.complete()
}

// complete ends the transfer as complete if all content was consumed. The caller holds mu.
func (d *delivery) complete() {
	if d.verified && d.position == d.size {
		d.in.finishLocked(nil)
	}
}

// pull waits for the next piece, which the caller must pass to consumed. It returns io.EOF
// after the last piece, or the error of the transfer.
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

// tryPull is like pull but does not wait.
func (d *delivery) tryPull() (piece, bool, error) {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	return d.pop()
}

// pop takes the next piece, if there is one. The caller holds mu.
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

// consumed is called when the application has consumed p. It advances the credit, and may
// complete the transfer.
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

// measure records how much was consumed. Stored content is consumed at the speed of a disk,
// which says nothing about the rest. The measurement of the speed therefore starts at the end
// of the stored content. The caller holds mu.
func (d *delivery) measure(now time.Time) {
	if d.units <= d.in.answer.resumed {
		d.speed.start(now, d.in.answer.resumed)
		return
	}
	d.speed.note(now, d.units)
}

// waiting returns the number of units that wait for the application. The caller holds mu.
func (d *delivery) waiting() (n int64) {
	for _, p := range d.pieces {
		n += p.units
	}
	return n
}

// tick calls OnBatch on the world's goroutine, until no batch is left or time is up. It
// reports whether batches may be left.
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

// tellEnd calls OnEnd, once, if the transfer has ended. It is called when the last message was
// sent to the sender, or no longer can be.
func (d *delivery) tellEnd() {
	if ended := d.ended; ended != nil && bell.Closed(d.in.done) {
		d.ended = nil
		d.in.guard("OnEnd", func() { ended(d.in.cause()) })
	}
}

// free frees all memory at the end of the transfer. Complete content can still be read. The
// caller holds mu.
func (d *delivery) free() {
	d.in.peer.account.Repay(d.borrowed)
	d.borrowed = 0
	if d.in.err != nil {
		d.pieces = nil // not freed, because a reader may still use one
	}
	d.ready.Broadcast()
}
