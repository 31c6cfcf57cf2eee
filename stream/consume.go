package stream

import (
	"context"
	"fmt"
	"io"
)

// pull waits for the next piece. It returns io.EOF at the end, and why the transfer failed. What is pulled must be
// given back to consumed.
func (in *incoming) pull(ctx context.Context) (piece, error) {
	if p, ok, err := in.tryPull(); ok || err != nil {
		return p, err
	}
	if in.peer.streams.world.Inside() {
		return piece{}, fmt.Errorf("%w: reading %v", ErrBlocking, &in.header)
	}
	defer context.AfterFunc(ctx, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.ready.Broadcast()
	})()
	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		p, ok, err := in.popLocked()
		switch {
		case ok || err != nil:
			return p, err
		case ctx.Err() != nil:
			return piece{}, context.Cause(ctx)
		}
		in.ready.Wait()
	}
}

func (in *incoming) tryPull() (piece, bool, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.popLocked()
}

func (in *incoming) popLocked() (piece, bool, error) {
	switch {
	case in.finished && in.err != nil:
		return piece{}, false, in.err
	case len(in.pieces) > 0:
		p := in.pieces[0]
		in.pieces[0] = piece{}
		in.pieces = in.pieces[1:]
		in.arrived.Signal()
		return p, true, nil
	case in.finished || in.verified:
		return piece{}, false, io.EOF
	}
	return piece{}, false, nil
}

// consumed notes that the application is through with p.
func (in *incoming) consumed(p piece) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.release(p)
	in.position += p.bytes
	in.elements += p.count
	if in.credit.consume(in.passed()) {
		in.peer.wake()
	}
	in.completeLocked()
}

// passed is below which offset nothing takes credit any more: it was consumed, perhaps before the header was answered, or
// is in the store. The lock is held.
func (in *incoming) passed() int64 { return max(in.position, in.parts.base) }

// deliverTick runs the application's callbacks, on the world's goroutine.
func (in *incoming) deliverTick() {
	for in.push != nil {
		p, ok, _ := in.tryPull()
		if !ok {
			break
		}
		if !in.guard("OnBatch", func() { in.push(p.batch) }) {
			break
		}
		in.consumed(p)
	}
	in.tellEnd()
}

// tellEnd runs OnEnd, once.
func (in *incoming) tellEnd() {
	select {
	case <-in.done:
	default:
		return
	}
	if ended := in.ended; ended != nil {
		in.ended = nil
		in.guard("OnEnd", func() { ended(in.cause()) })
	}
}

// cause is why the transfer failed.
func (in *incoming) cause() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.err
}
