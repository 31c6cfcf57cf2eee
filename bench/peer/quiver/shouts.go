package quiver

import (
	"context"
	"time"

	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/rpc"
)

const (
	// burst is how many calls a tick makes between two checks of the reliable
	// buffer. A call takes one entry at most.
	burst = 64
	// shoutQueue is how long sending the unsent calls may take, as in the default of [stream.Gate].
	shoutQueue = 20 * time.Millisecond
)

// A shouts is a series of reliable calls without answers. The client makes them under
// the default of [stream.Gate]: while less than half of the reliable buffer is taken.
type shouts struct {
	// The client world's.
	argument rpc.Raw
	left     int // calls to make

	// The server world's.
	wanted, heard int // calls

	done chan error // receives nil when the server has handled all calls, or the error of a call; capacity 1
}

// hear counts a call at the server.
func (s *shouts) hear() {
	s.heard++
	if s.heard == s.wanted {
		s.done <- nil
	}
}

// pump makes calls, at each tick of the client, until the gate closes. Watch
// then requests a tick as soon as it is open again.
func (s *shouts) pump(a *rpc.Actor) {
	if s.left == 0 {
		return
	}
	ch := a.Channel(a.Conn())
	for s.left > 0 {
		if out, slots := ch.Reliable(); out >= slots/2 || ch.QueueTime() > shoutQueue {
			ch.Watch(slots/2, shoutQueue)
			return
		}
		for range min(burst, s.left) {
			if err := shout.Call(a, s.argument); err != nil {
				s.left = 0
				s.done <- err
				return
			}
			s.left--
		}
	}
}

// Shout implements [peer.Shouter].
func (p *Pair) Shout(ctx context.Context, argument []byte, count int) error {
	s := &p.game.shouts
	if err := p.server.Do(ctx, func() { s.wanted, s.heard = count, 0 }); err != nil {
		return err
	}
	if err := p.client.Do(ctx, func() { s.argument, s.left = argument, count }); err != nil {
		return err
	}
	return peer.Await(ctx, s.done, 1)
}
