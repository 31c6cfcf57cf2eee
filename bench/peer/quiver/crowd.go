package quiver

import (
	"context"
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/rpc"
)

var (
	crowdClass = rpc.NewClass("crowd")
	crowdUp    = rpc.Server[rpc.Raw](crowdClass, "Up", rpc.Unreliable)
	crowdDown  = rpc.Client[rpc.Raw](crowdClass, "Down", rpc.Unreliable)

	stageClass = rpc.NewClass("stage")
	stageAll   = rpc.Multicast[rpc.Raw](stageClass, "All", rpc.Unreliable)
)

// receiveLimit is the least that rpc accepts. With the default, 8 MiB, 64
// connections could use up the default budget of 512 MiB.
const receiveLimit = 256 << 10

// A crowd is a server's world and those of many clients.
type crowd struct {
	server   *rpc.World
	listener *rpc.Listener
	stage    *rpc.Actor         // the server's, for multicasts
	actors   []*rpc.Actor       // the server's, one for each client; the server world's
	cancel   context.CancelFunc // ends Run of all worlds
	work     sync.WaitGroup     // Run of all worlds

	mu      sync.Mutex
	clients []*member // complete when newCrowd returns
}

// A member is one client.
type member struct {
	world *rpc.World
	actor chan *rpc.Actor // receives own when it has opened
	own   *rpc.Actor      // set when join returns
}

// gather returns a function for [peer.Peer].Gather that makes a crowd with
// sealed packets or without.
func gather(sealed bool) func(ctx context.Context, clients, hz int, hear func(message []byte)) (peer.Crowd, error) {
	return func(ctx context.Context, clients, hz int, hear func(message []byte)) (peer.Crowd, error) {
		return newCrowd(ctx, clients, hz, sealed, hear)
	}
}

func newCrowd(ctx context.Context, clients, hz int, sealed bool, hear func(message []byte)) (peer.Crowd, error) {
	config := rpc.Config{Sealed: sealed}
	config.Bunch.AckDelay = ackDelay(hz)
	serving := config
	serving.ReceiveLimit, serving.MaxConnsPerAddress = receiveLimit, -1
	server, err := rpc.NewWorld(serving)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	c := &crowd{server: server, cancel: cancel}
	c.serve(hear)
	if c.listener, err = rpc.Listen("127.0.0.1:0", peer.ServerTLS(), server); err != nil {
		return nil, err
	}
	c.work.Go(func() { _ = server.Run(running) })
	if err := server.Do(ctx, func() { c.stage, err = server.Spawn(stageClass, nil, rpc.AlwaysRelevant()) }); err != nil {
		return nil, err
	}
	return c, peer.Join(clients, func() error { return c.join(ctx, running, config, hear) })
}

// ackDelay returns what Config.TickRate makes of Bunch.AckDelay in a game that
// ticks hz times a second. Here packets are sent by posts.
func ackDelay(hz int) time.Duration {
	return max(40*time.Millisecond, time.Second/time.Duration(hz)*5/4)
}

func (c *crowd) serve(hear func(message []byte)) {
	b := rpc.Bind(c.server, crowdClass, func(a *rpc.Actor) *rpc.Actor { return a })
	rpc.On(b, crowdUp, func(_ *rpc.Actor, _ *rpc.Call, m rpc.Raw) { hear(m) })
	rpc.Bind(c.server, stageClass, func(a *rpc.Actor) *rpc.Actor { return a })
	c.server.OnConnect(func(conn *rpc.Conn) {
		if a, err := c.server.Spawn(crowdClass, conn); err == nil {
			c.actors = append(c.actors, a)
		}
	})
}

// join makes one client, which has its actor when join returns.
func (c *crowd) join(ctx, running context.Context, config rpc.Config, hear func(message []byte)) error {
	world, err := rpc.NewWorld(config)
	if err != nil {
		return err
	}
	m := &member{world: world, actor: make(chan *rpc.Actor, 1)}
	b := rpc.Bind(world, crowdClass, func(a *rpc.Actor) *rpc.Actor { m.actor <- a; return a })
	rpc.On(b, crowdDown, func(_ *rpc.Actor, _ *rpc.Call, p rpc.Raw) { hear(p) })
	s := rpc.Bind(world, stageClass, func(a *rpc.Actor) *rpc.Actor { return a })
	rpc.On(s, stageAll, func(_ *rpc.Actor, _ *rpc.Call, p rpc.Raw) { hear(p) })
	if _, err := rpc.Dial(ctx, c.listener.Addr().String(), peer.ClientTLS(), world); err != nil {
		return err
	}
	c.work.Go(func() { _ = world.Run(running) })
	select {
	case m.own = <-m.actor:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = append(c.clients, m)
	return nil
}

// Tick implements peer.Crowd.
func (c *crowd) Tick(message []byte) error {
	p := append(rpc.Raw(nil), message...)
	c.server.Post(func() {
		for _, a := range c.actors {
			_ = crowdDown.Call(a, p)
		}
	})
	for _, m := range c.clients {
		m.world.Post(func() { _ = crowdUp.Call(m.own, p) })
	}
	return nil
}

// Multicast implements peer.Crowd.
func (c *crowd) Multicast(message []byte) error {
	p := append(rpc.Raw(nil), message...)
	c.server.Post(func() { _ = stageAll.Call(c.stage, p) })
	return nil
}

// Close closes all worlds.
func (c *crowd) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, m := range c.clients {
		_ = m.world.Close(ctx, 0, "over")
	}
	_ = c.server.Close(ctx, 0, "over")
	_ = c.listener.Close()
	c.cancel()
	c.work.Wait()
}
