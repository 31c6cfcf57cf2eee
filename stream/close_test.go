package stream

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// crowd is a server and clients that all send to each other, until everything
// ends at a random moment.
type crowd struct {
	*testing.T
	random *rand.Rand
	ctx    context.Context // of the worlds' Run
	stop   context.CancelFunc
	worlds []*rpc.World
	waits  *waits
	drives sync.WaitGroup
}

// waits counts the calls of this package that wait.
type waits struct{ atomic.Int64 }

// Go runs fn, which makes one.
func (w *waits) Go(fn func()) {
	w.Add(1)
	go func() {
		defer w.Add(-1)
		fn()
	}()
}

// fork returns a crowd for another goroutine, with random numbers of its own.
func (c *crowd) fork() *crowd {
	return &crowd{T: c.T, ctx: c.ctx, waits: c.waits, random: rand.New(rand.NewPCG(c.random.Uint64(), 3))}
}

// TestEverythingEndsWithTheConnection closes worlds at random moments, some
// when nobody drives them any more.
func TestEverythingEndsWithTheConnection(t *testing.T) {
	first := testkit.Seed(t)
	for seed := range testkit.Brief[uint64](12, 60) {
		if !t.Run("", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { endAtRandom(t, first+seed) }) }) {
			t.Fatalf("QUIVER_SEED=%d", first+seed)
		}
	}
}

func endAtRandom(t *testing.T, seed uint64) {
	c := &crowd{T: t, random: rand.New(rand.NewPCG(seed, 2)), waits: new(waits)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	server, streams := c.world()
	sends := c.fork()
	server.OnConnect(func(conn *rpc.Conn) { sends.sendSome(streams.Peer(conn)) })
	for range 1 + c.random.IntN(3) {
		c.join(server)
	}
	time.Sleep(c.moment())
	for _, i := range c.random.Perm(2 + len(c.worlds)) {
		time.Sleep(c.moment() / 4 * time.Duration(c.random.IntN(2)))
		switch {
		case i < len(c.worlds):
			ctx, cancel := context.WithTimeout(context.Background(), c.moment())
			_ = c.worlds[i].Close(ctx, 0, "over")
			cancel()
		case i == len(c.worlds):
			c.stop()
		}
	}
	for range 1200 {
		if time.Sleep(100 * time.Millisecond); c.waits.Load() == 0 {
			break
		}
	}
	require.Zero(t, c.waits.Load(), "calls still wait two minutes after the end")
	c.drives.Wait()
	time.Sleep(2 * endGrace)
}

// moment is a random time: often within the first round trips, seldom late.
func (c *crowd) moment() time.Duration {
	return time.Duration(c.random.Int64N(1 << (10 + c.random.IntN(18)))) // up to an eighth of a second
}

// world makes a world that takes all transfers, each in a random way, and drives it.
func (c *crowd) world() (*rpc.World, *Streams) {
	w, s := newWorld(c, rpc.Config{}, Config{MaxTransfers: 1 + c.random.IntN(8)})
	c.worlds = append(c.worlds, w)
	save.Handle(s, func(in *IncomingBlob) {
		c.waits.Go(func() { _, _ = io.Copy(io.Discard, in); <-in.Done() })
	})
	items.Handle(s, func(in *IncomingArray[item]) {
		if len(in.Name()) > 0 {
			in.OnBatch(func([]item) {})
			return
		}
		c.waits.Go(func() { _, _ = in.Collect(context.Background()); <-in.Done() })
	})
	tick := time.Duration(c.random.IntN(2)) * 20 * time.Millisecond
	c.drives.Go(func() {
		if tick == 0 {
			_ = w.Run(c.ctx)
		}
		for c.ctx.Err() == nil && tick > 0 {
			time.Sleep(tick)
			w.Tick(time.Now())
		}
	})
	return w, s
}

// join connects one more client, which sends before, during and after the worlds' end.
func (c *crowd) join(server *rpc.World) {
	near, far := linktest.Pipe()
	delay := c.moment() / 8
	// With 1 µs a tenth of a second is a hundred thousand round trips, which
	// show no more than a thousand do.
	near.SetDelay(max(delay, 100*time.Microsecond))
	far.SetDelay(max(delay, 100*time.Microsecond))
	w, s := c.world()
	_, _ = server.Attach(plug{near})
	mine := c.fork()
	c.waits.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		conn, err := w.Connect(ctx, plug{far})
		if err != nil {
			return
		}
		for range 3 {
			mine.sendSome(s.Peer(conn))
			time.Sleep(mine.moment())
		}
	})
}

// sendSome starts transfers of all kinds, without waiting for them here.
func (c *crowd) sendSome(p *Peer) {
	for range 1 + c.random.IntN(5) {
		via, name := Via(Window{}), Name([]string{"", "pushed"}[c.random.IntN(2)])
		if c.random.IntN(2) == 0 {
			via = Via(Slices{})
		}
		size := c.random.IntN(1 << (1 + c.random.IntN(18)))
		switch c.random.IntN(4) {
		case 0:
			c.waits.Go(func() { _ = items.Send(context.Background(), p, testItems(size/10), via, name) })
		case 1:
			c.waits.Go(func() { _ = save.Send(context.Background(), p, trickle{endless{}, time.Millisecond}, -1, via) })
		case 2:
			if t, err := save.Start(p, bytes.NewReader(content(size)), int64(size), via); err == nil {
				c.waits.Go(func() { <-t.Done() })
			}
		case 3:
			if t, err := save.Start(p, endless{}, -1, via); err == nil {
				c.waits.Go(func() { _ = t.Wait(context.Background()) })
			}
		}
	}
}

// TestStartAfterTheEnd wants every call to fail at once, or soon, when the
// connection has ended and nobody has ticked.
func TestStartAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serverWorld, server := newWorld(t, rpc.Config{}, Config{})
		clientWorld, client := newWorld(t, rpc.Config{}, Config{})
		joined := make(chan *rpc.Conn, 1)
		serverWorld.OnConnect(func(c *rpc.Conn) { joined <- c })
		near, far := linktest.Pipe()
		_, err := serverWorld.Attach(plug{near})
		require.NoError(t, err)
		conn, err := clientWorld.Connect(t.Context(), plug{far})
		require.NoError(t, err)
		for range 20 {
			serverWorld.Tick(time.Now())
			clientWorld.Tick(time.Now())
			time.Sleep(time.Millisecond)
		}
		before, err := save.Start(client.Peer(conn), endless{}, -1)
		require.NoError(t, err)
		require.NoError(t, clientWorld.Close(t.Context(), 0, "over"))
		require.NoError(t, serverWorld.Close(t.Context(), 0, "over"))
		<-before.Done()
		require.ErrorIs(t, before.Wait(t.Context()), ErrClosed)
		before.Cancel(errTest)
		require.ErrorIs(t, before.Err(), ErrClosed)
		for _, p := range []*Peer{client.Peer(conn), server.Peer(<-joined)} {
			_, err = save.Start(p, endless{}, -1)
			require.ErrorIs(t, err, ErrClosed)
			_, err = items.Start(p, nil)
			require.ErrorIs(t, err, ErrClosed)
		}
		time.Sleep(time.Minute)
		serverWorld.Tick(time.Now())
		clientWorld.Tick(time.Now())
		require.Empty(t, client.peers)
		require.Empty(t, server.peers)
	})
}

// TestCallsEndWithTheConnection stops the world before the connection ends, so
// that no tick reports the end.
func TestCallsEndWithTheConnection(t *testing.T) {
	inCalls(t, setup{}, func(c *callsTest) {
		var calling *Calling
		c.do(c.network.server.world, func() {
			var err error
			calling, err = Calls(clientReceiveData, c.server.actor, testItems(100_000), CallsConfig{})
			require.NoError(c, err)
		})
		c.cancel()
		time.Sleep(time.Millisecond) // Run returns
		c.network.server.peer.conn.Close(0, "bye")
		<-calling.Done()
		require.ErrorIs(c, calling.Err(), ErrClosed)
		require.ErrorContains(c, calling.Err(), "of 100000 items sent")
	})
}
