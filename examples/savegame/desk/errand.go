package desk

import (
	"context"
	"errors"

	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/stream"
)

// errand is a put or get that goes on, from its first request to its last.
type errand struct {
	clerk  *clerk
	number number
	ctx    context.Context // of its steps
	cancel context.CancelCauseFunc
	put    *versions.Put     // nil: a get
	open   *versions.Content // nil: a put

	// Guarded by the clerk's mu.
	steps int  // requests that were begun
	busy  bool // one of them goes on
	over  bool // no more may begin

	// Of the request that goes on.
	blobs  <-chan *stream.IncomingBlob // what it takes
	lacks  []int                       // of a put
	memory int64                       // of Server.manifests
	slices bool                        // of a get
	rate   int                         // of a get
}

var errTurn = errors.New("the request is out of turn")

// begin begins an errand; first says whether it may go on.
func (k *clerk) begin(n number, first func(*errand) error) error {
	if err := k.server.count(1); err != nil {
		return err
	}
	e := &errand{clerk: k, number: n, busy: true}
	e.ctx, e.cancel = context.WithCancelCause(k.ctx)
	err := k.enter(e)
	if err == nil {
		err = first(e)
	}
	k.stepped(e, err != nil)
	return err
}

func (k *clerk) enter(e *errand) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() != nil {
		return context.Cause(k.ctx)
	}
	if k.errands[e.number] != nil || len(k.errands) >= maxErrands {
		return errTurn
	}
	k.errands[e.number] = e
	return nil
}

// step does the next request of an errand, and ends that with the last or with one that fails.
func (k *clerk) step(n number, which func(*errand) bool, last bool, do func(*errand) error) error {
	k.mu.Lock()
	e := k.errands[n]
	if e == nil || e.busy || e.over || !which(e) {
		k.mu.Unlock()
		return errTurn
	}
	e.busy = true
	e.steps++
	k.mu.Unlock()
	err := do(e)
	k.stepped(e, last || err != nil)
	return err
}

func (k *clerk) stepped(e *errand, last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e.busy = false
	if last || e.over {
		k.end(e)
	}
}

// giveUp ends an errand as soon as no request of it goes on. The caller holds mu.
func (k *clerk) giveUp(e *errand, cause error) {
	e.cancel(cause)
	e.over = true
	if !e.busy {
		k.end(e)
	}
}

// end forgets an errand of which no request goes on. The caller holds mu.
func (k *clerk) end(e *errand) {
	if k.errands[e.number] == e {
		delete(k.errands, e.number)
		k.inbox.forget(e.number)
	}
	e.cancel(errForgotten)
	k.server.jobs.Go(func() { // a store may take its time
		if e.put != nil {
			e.put.Abandon()
		}
		if e.open != nil {
			e.open.Close()
		}
		k.server.manifests.Release(e.memory)
		_ = k.server.count(-1)
	})
}
