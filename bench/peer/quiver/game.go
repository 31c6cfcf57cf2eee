package quiver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/rpc"
)

// The calls beside the blobs.
var (
	gameClass = rpc.NewClass("bench")
	say       = rpc.Server[rpc.Raw](gameClass, "Say", rpc.Reliable)
	ask       = rpc.Server[rpc.Raw](gameClass, "Ask", rpc.Reliable)
	answer    = rpc.Client[rpc.Raw](gameClass, "Answer", rpc.Reliable)
	shout     = rpc.Server[rpc.Raw](gameClass, "Shout", rpc.Reliable)
)

// A game is the actor beside the blobs, at both ends.
type game struct {
	opened chan *rpc.Actor      // receives the client's end of the actor
	actor  *rpc.Actor           // the client's end; the client world's
	hear   func(message []byte) // set by Hear, called by the server's world
	shouts shouts
	calls  peer.Numbered
	chain  *peer.Chain // the client world's; nil = answers go to calls
}

func (g *game) bind(server, client *rpc.World) {
	g.opened = make(chan *rpc.Actor, 1)
	g.shouts.done = make(chan error, 1)
	b := rpc.Bind(server, gameClass, func(a *rpc.Actor) *rpc.Actor { return a })
	rpc.On(b, say, func(_ *rpc.Actor, _ *rpc.Call, m rpc.Raw) { g.hear(m) })
	rpc.On(b, ask, func(a *rpc.Actor, _ *rpc.Call, m rpc.Raw) { _ = answer.Call(a, m) })
	rpc.On(b, shout, func(_ *rpc.Actor, _ *rpc.Call, _ rpc.Raw) { g.shouts.hear() })
	server.OnConnect(func(c *rpc.Conn) { _, _ = server.Spawn(gameClass, c) })

	c := rpc.Bind(client, gameClass, func(a *rpc.Actor) *rpc.Actor { g.opened <- a; return a })
	rpc.On(c, answer, func(a *rpc.Actor, _ *rpc.Call, m rpc.Raw) { g.answered(a, m) })
	client.OnTick(func(time.Time) { g.shouts.pump(g.actor) })
}

// await returns when the server's actor has opened at the client.
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
	g.calls.Answered(m, nil)
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
	posted := p.client.Do(context.Background(), func() { err = say.Call(p.game.actor, message) })
	if posted != nil {
		return posted
	}
	return err
}

// Call makes a call to the server and waits for the one that answers.
func (p *Pair) Call(ctx context.Context, argument []byte) error {
	g := &p.game
	return g.calls.Call(ctx, argument, func(message []byte) error {
		p.client.Post(func() {
			if err := ask.Call(g.actor, message); err != nil {
				g.calls.Answered(message, fmt.Errorf("quiver: ask: %w", err))
			}
		})
		return nil
	})
}
