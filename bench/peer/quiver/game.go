package quiver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/rpc"
)

// The calls beside the blobs.
var (
	gameClass = rpc.NewClass("bench")
	shoot     = rpc.Server[rpc.Raw](gameClass, "Shoot", rpc.Reliable)
	ask       = rpc.Server[rpc.Raw](gameClass, "Ask", rpc.Reliable)
	answer    = rpc.Client[rpc.Raw](gameClass, "Answer", rpc.Reliable)
	tell      = rpc.Server[rpc.Raw](gameClass, "Tell", rpc.Reliable)
)

// game is the actor at both ends.
type game struct {
	opened chan *rpc.Actor
	actor  *rpc.Actor // the client's
	hear   func(message []byte)
	told   told

	mu      sync.Mutex
	waiting map[uint64]chan struct{} // calls not yet answered, by the number at the head of the argument
	last    uint64
	chain   *peer.Chain // the client world's; nil = answers go to those who wait
}

func (g *game) bind(server, client *rpc.World) {
	g.opened = make(chan *rpc.Actor, 1)
	g.waiting = make(map[uint64]chan struct{})
	g.told.done = make(chan struct{}, 1)
	b := rpc.Bind(server, gameClass, func(a *rpc.Actor) *rpc.Actor { return a })
	rpc.On(b, shoot, func(_ *rpc.Actor, _ *rpc.Call, m rpc.Raw) { g.hear(m) })
	rpc.On(b, ask, func(a *rpc.Actor, _ *rpc.Call, m rpc.Raw) { _ = answer.Call(a, m) })
	rpc.On(b, tell, func(_ *rpc.Actor, _ *rpc.Call, _ rpc.Raw) { g.told.hear() })
	server.OnConnect(func(c *rpc.Conn) { _, _ = server.Spawn(gameClass, c) })

	c := rpc.Bind(client, gameClass, func(a *rpc.Actor) *rpc.Actor { g.opened <- a; return a })
	rpc.On(c, answer, func(a *rpc.Actor, _ *rpc.Call, m rpc.Raw) { g.answered(a, m) })
	client.OnTick(func(time.Time) { g.told.pump(g.actor) })
}

// await takes the client's actor.
func (g *game) await(ctx context.Context) error {
	select {
	case a := <-g.opened:
		return a.World().Do(ctx, func() { g.actor = a })
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *game) answered(a *rpc.Actor, m rpc.Raw) {
	if g.chain != nil {
		if !g.chain.Answered(func() error { return ask.Call(a, m) }) {
			g.chain = nil
		}
		return
	}
	number := binary.LittleEndian.Uint64(m)
	g.mu.Lock()
	done := g.waiting[number]
	delete(g.waiting, number)
	g.mu.Unlock()
	if done != nil {
		done <- struct{}{}
	}
}

// Chain makes the next call in the handler of the answer to the last.
func (p *Pair) Chain(ctx context.Context, argument []byte, next func() bool) error {
	c := peer.NewChain(next)
	var err error
	posted := p.client.Do(ctx, func() {
		p.game.chain = c
		err = ask.Call(p.game.actor, rpc.Raw(argument))
	})
	if err = errors.Join(posted, err); err != nil {
		return err
	}
	return c.Wait(ctx)
}

// Hear implements peer.Talker.
func (p *Pair) Hear(fn func(message []byte)) { p.game.hear = fn }

// Say makes one reliable call.
func (p *Pair) Say(message []byte) error {
	var err error
	posted := p.client.Do(context.Background(), func() { err = shoot.Call(p.game.actor, message) })
	if posted != nil {
		return posted
	}
	return err
}

// Call makes a call to the server and waits for the one that answers. The first 8 bytes of the argument travel as the
// number by which the answer is known.
func (p *Pair) Call(ctx context.Context, argument []byte) error {
	done := make(chan struct{}, 1)
	g := &p.game
	m := append(rpc.Raw(nil), argument...)
	g.mu.Lock()
	g.last++
	binary.LittleEndian.PutUint64(m, g.last)
	g.waiting[g.last] = done
	g.mu.Unlock()
	failed := make(chan error, 1)
	p.client.Post(func() {
		if err := ask.Call(g.actor, m); err != nil {
			failed <- fmt.Errorf("quiver: ask: %w", err)
		}
	})
	select {
	case <-done:
		return nil
	case err := <-failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
