package main

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// The gameplay that runs beside a demo's transfers: 100 bytes, 30 times a second.
const (
	probeBytes    = 100
	probeInterval = time.Second / 30
	// probeUnloaded is how many calls each direction makes without a transfer.
	probeUnloaded = 60
)

var (
	gameplay     = rpc.NewClass("Gameplay")
	gameplayUp   = rpc.Server[rpc.Raw](gameplay, "Up", rpc.Reliable)
	gameplayDown = rpc.Client[rpc.Raw](gameplay, "Down", rpc.Reliable)
)

// probe measures how long calls take from Call on one world to the handler on the other, by the one clock of the
// process that holds both.
type probe struct {
	start time.Time

	mu       sync.Mutex
	arrived  sync.Cond
	sent     int
	received int
	current  *[]time.Duration // where delays go

	up, down avatar
}

// avatar is the actor of gameplay in one world, on the connection that is used.
type avatar struct {
	call   rpc.Handle[rpc.Raw]
	opened chan *rpc.Actor
	actor  *rpc.Actor
}

// await takes the actor of a new connection.
func (v *avatar) await(ctx context.Context) error {
	select {
	case v.actor = <-v.opened:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func newProbe() *probe {
	p := &probe{start: time.Now()}
	p.arrived.L = &p.mu
	p.up = avatar{call: gameplayUp, opened: make(chan *rpc.Actor, 1)}
	p.down = avatar{call: gameplayDown, opened: make(chan *rpc.Actor, 1)}
	return p
}

// onServer makes the server's world spawn the actor and answer for it.
func (p *probe) onServer(w *rpc.World) {
	b := rpc.Bind(w, gameplay, func(a *rpc.Actor) *probe { return p.open(&p.down, a) })
	rpc.On(b, gameplayUp, (*probe).hear)
	w.OnConnect(func(c *rpc.Conn) {
		if _, err := w.Spawn(gameplay, c); err != nil {
			c.Close(rpc.ServerFull, err.Error())
		}
	})
}

func (p *probe) onClient(w *rpc.World) {
	b := rpc.Bind(w, gameplay, func(a *rpc.Actor) *probe { return p.open(&p.up, a) })
	rpc.On(b, gameplayDown, (*probe).hear)
}

// open offers the actor of a new connection to await.
func (p *probe) open(v *avatar, a *rpc.Actor) *probe {
	v.opened <- a
	return p
}

// await prepares for a new connection, whose actors are on their way.
func (p *probe) await(ctx context.Context) error {
	return errors.Join(p.up.await(ctx), p.down.await(ctx))
}

// hear notes how long a call was under way.
func (p *probe) hear(_ *rpc.Call, payload rpc.Raw) {
	if len(payload) != probeBytes {
		return
	}
	delay := time.Since(p.start) - time.Duration(binary.LittleEndian.Uint64(payload))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received++
	*p.current = append(*p.current, delay)
	p.arrived.Broadcast()
}

// say makes one call, on the world's goroutine.
func (p *probe) say(v *avatar) {
	payload := make(rpc.Raw, probeBytes)
	binary.LittleEndian.PutUint64(payload, uint64(time.Since(p.start)))
	if err := v.call.Call(v.actor, payload); err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sent++
	}
}

// unloaded calls in both directions, some number of times each.
func (p *probe) unloaded(ctx context.Context, calls int) ([]time.Duration, error) {
	return p.run(ctx, func() error {
		ticker := time.NewTicker(probeInterval)
		defer ticker.Stop()
		for range calls {
			p.up.actor.World().Post(func() { p.say(&p.up) })
			p.down.actor.World().Post(func() { p.say(&p.down) })
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}, &p.up, &p.down)
}

// beside calls in one direction for as long as fn runs.
func (p *probe) beside(ctx context.Context, v *avatar, fn func() error) ([]time.Duration, error) {
	return p.run(ctx, func() error {
		over := make(chan struct{})
		var pacer sync.WaitGroup
		pacer.Go(func() {
			ticker := time.NewTicker(probeInterval)
			defer ticker.Stop()
			for {
				v.actor.World().Post(func() { p.say(v) })
				select {
				case <-ticker.C:
				case <-over:
					return
				}
			}
		})
		err := fn()
		close(over)
		pacer.Wait()
		return err
	}, v)
}

// run gathers the delays of the calls that fn makes, to the last one.
func (p *probe) run(ctx context.Context, fn func() error, by ...*avatar) ([]time.Duration, error) {
	var delays []time.Duration
	p.mu.Lock()
	p.current, p.sent, p.received = &delays, 0, 0
	p.mu.Unlock()
	if err := fn(); err != nil {
		return nil, err
	}
	for _, v := range by { // behind the last post
		if err := v.actor.World().Do(ctx, func() {}); err != nil {
			return nil, err
		}
	}
	defer context.AfterFunc(ctx, p.arrived.Broadcast)()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.received < p.sent && ctx.Err() == nil {
		p.arrived.Wait()
	}
	return delays, context.Cause(ctx)
}
