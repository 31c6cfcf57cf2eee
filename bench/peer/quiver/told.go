package quiver

import (
	"context"
	"time"

	"github.com/quivernet/quiver/rpc"
)

const (
	// burst is how many calls a tick makes between two looks at the reliable buffer. A call takes an entry at most.
	burst = 64
	// tellQueue is how much may wait in front of the link.
	tellQueue = 20 * time.Millisecond
)

// told is a series of calls without answers, sent under the half-buffer gate of the streamer.
type told struct {
	argument rpc.Raw
	left     int // to make; the client world's
	err      error

	wanted, heard int // the server world's
	done          chan struct{}
}

// hear counts one at the server.
func (t *told) hear() {
	t.heard++
	if t.heard == t.wanted {
		t.done <- struct{}{}
	}
}

// pump makes calls while less than half of the reliable buffer is taken.
func (t *told) pump(a *rpc.Actor) {
	if t.left == 0 || t.err != nil {
		return
	}
	ch := a.Channel(a.Conn())
	for t.left > 0 {
		if out, slots := ch.Reliable(); out >= slots/2 || ch.QueueTime() > tellQueue {
			ch.Watch(slots/2, tellQueue)
			return
		}
		for range min(burst, t.left) {
			if t.err = tell.Call(a, t.argument); t.err != nil {
				return
			}
			t.left--
		}
	}
}

// Shout makes reliable calls without answers.
func (p *Pair) Shout(ctx context.Context, argument []byte, count int) error {
	t := &p.game.told
	if err := p.server.Do(ctx, func() { t.wanted, t.heard = count, 0 }); err != nil {
		return err
	}
	if err := p.client.Do(ctx, func() { t.argument, t.left = argument, count }); err != nil {
		return err
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
