package stream

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// carriages are the ways in which content can be sent; all of them must behave alike.
var carriages = []struct {
	name   string
	via    Backend
	sealed bool // as a transfer reports
}{
	{"window over quic", Window{}, false},
	{"lanes over quic", Window{Lanes: 4}, false},
	{"slices over quic", Slices{}, false},
	{"window sealed", Window{}, true},
	{"lanes sealed", Window{Lanes: 4}, true},
	{"slices sealed", Slices{}, true},
}

// overCarriage runs fn over a path, with the sealed carrier open where that is to be so.
func overCarriage(t *testing.T, path netsim.Config, sealed bool, fn func(ctx context.Context, l loopback, c *callers)) {
	c := new(callers)
	// At 20 % lost QUIC's own probes, whose pauses double, stay without an
	// answer for 6 s in one of thirty runs, and for 30 s in one of a thousand.
	config := rpc.Config{Sealed: sealed, IdleTimeout: 10 * time.Minute, Classes: []*rpc.Class{playerClass}}
	overQUICWith(t, path, config, c.bind, func(t *testing.T, l loopback) {
		if sealed {
			l.awaitSealed(t)
		}
		fn(t.Context(), l, c)
	})
}

// callers are a game of its own class, to which Calls go both ways.
type callers struct {
	actor    chan *rpc.Actor // the client's copy
	up, down chan []item     // what came before the last word
}

func (c *callers) bind(server, client *rpc.World) {
	c.actor, c.up, c.down = make(chan *rpc.Actor, 1), make(chan []item, 1), make(chan []item, 1)
	b := rpc.Bind(client, playerClass, func(a *rpc.Actor) *callsPlayer {
		c.actor <- a
		return &callsPlayer{actor: a}
	})
	rpc.On(b, clientReceiveData, (*callsPlayer).receive)
	rpc.On(b, clientNotifyAll, func(p *callsPlayer, _ *rpc.Call, _ rpc.None) { c.down <- p.items })
	b = rpc.Bind(server, playerClass, func(a *rpc.Actor) *callsPlayer { return &callsPlayer{actor: a} })
	rpc.On(b, serverReceiveData, (*callsPlayer).receivePage)
	rpc.On(b, serverNotifyAll, func(p *callsPlayer, _ *rpc.Call, _ rpc.None) { c.up <- p.items })
}

// call has the world of one end call.
func (n *conformance) call(by *Peer, fn func(w *rpc.World) error) {
	var err error
	w := by.Conn().World()
	require.NoError(n, w.Do(n.ctx, func() { err = fn(w) }))
	require.NoError(n, err)
}

// calls moves items by RPCs of the game's own, both ways at once, over an actor
// that is there for them.
func (n *conformance) calls(count int) {
	sent := testItems(count)
	var a *rpc.Actor
	n.call(n.toClient, func(w *rpc.World) (err error) {
		if a, err = w.Spawn(playerClass, n.toClient.Conn()); err == nil {
			_, err = Calls(clientReceiveData, a, sent, CallsConfig{End: clientNotifyAll})
		}
		return err
	})
	mirror := <-n.callers.actor
	n.call(n.toServer, func(*rpc.World) error {
		page := -1 // the first call only measures
		wrap := func(items []item) itemPage {
			page++
			return itemPage{Page: page - 1, Items: items}
		}
		_, err := Calls(Wrap(serverReceiveData, wrap), mirror, sent, CallsConfig{End: serverNotifyAll})
		return err
	})
	require.Equal(n, sent, <-n.callers.down)
	require.Equal(n, sent, <-n.callers.up)
	n.call(n.toClient, func(w *rpc.World) error { return w.Destroy(a) })
}

// TestConformance runs one table over every backend and carrier, with the same seeds: both
// directions at once, sizes that are known and not, arrays, and content that is there already.
func TestConformance(t *testing.T) {
	seed := testkit.Seed(t)
	losses := []float64{0, 0.01, 0.05, 0.2}
	if testing.Short() {
		losses = []float64{0.05}
	}
	for _, loss := range losses {
		for _, c := range carriages {
			t.Run(fmt.Sprintf("%v/%s", loss, c.name), func(t *testing.T) {
				path := netsim.Config{Delay: 10 * time.Millisecond, Loss: loss, Duplicate: 0.01, Reorder: 0.01, Seed: seed}
				overCarriage(t, path, c.sealed, func(ctx context.Context, l loopback, callers *callers) {
					n := &conformance{t, ctx, l, callers, c.via, c.sealed, loss, rand.New(rand.NewPCG(seed, 2)), collect(l.server), collect(l.client)}
					n.everything()
					n.mixed()
					require.Zero(n, l.toServer.Conn().Stats().Drops.UnknownMachine+l.toClient.Conn().Stats().Drops.UnknownMachine)
					require.Zero(n, l.toServer.Stats().SlicesRefused+l.toClient.Stats().SlicesRefused, "who keeps to his credit finds room")
				})
			})
		}
	}
}

// TestConformanceOfAChangingCarrier: with a sealed carrier that opens late, or that falls
// silent and comes back while content is in flight, whichever carrier sends the parts.
func TestConformanceOfAChangingCarrier(t *testing.T) {
	for name, change := range map[string]func(up, down *gate, over <-chan struct{}){
		"opens late": func(up, down *gate, over <-chan struct{}) {
			wait(over, 700*time.Millisecond)
			up.shut.Store(false)
			down.shut.Store(false)
		},
		"silent and back": func(up, down *gate, over <-chan struct{}) {
			for shut := false; wait(over, 1500*time.Millisecond); shut = !shut {
				up.shut.Store(shut)
				down.shut.Store(shut)
			}
		},
		"one way silent and back": func(up, down *gate, over <-chan struct{}) {
			for way := 0; wait(over, 1100*time.Millisecond); way++ {
				up.shut.Store(way%4 == 1)
				down.shut.Store(way%4 == 3)
			}
		},
	} {
		backends, losses := []Backend{Window{}, Window{Lanes: 4}, Slices{}}, []float64{0, 0.05, 0.2}
		if testing.Short() {
			seed := testkit.Seed(t)
			backends, losses = backends[seed%3:][:1], losses[seed/3%3:][:1]
		}
		for i := range len(backends) * len(losses) {
			via, loss := backends[i/len(losses)], losses[i%len(losses)]
			t.Run(fmt.Sprintf("%s/%T%+v/loss %v", name, via, via, loss), func(t *testing.T) {
				var up, down gate
				up.shut.Store(true)
				down.shut.Store(true)
				seed := testkit.Seed(t)
				path := netsim.Config{Delay: 10 * time.Millisecond, Rate: 3e6, Loss: loss, Duplicate: 0.01, Reorder: 0.01, Seed: seed}
				callers, config := new(callers), rpc.Config{Sealed: true, IdleTimeout: 10 * time.Minute, Classes: []*rpc.Class{playerClass}}
				overWays(t, up.over(path), down.over(path), config, callers.bind, func(t *testing.T, l loopback) {
					over, done := make(chan struct{}), make(chan struct{})
					go func() {
						defer close(done)
						change(&up, &down, over)
					}()
					n := &conformance{t, t.Context(), l, callers, via, true, mayChange, rand.New(rand.NewPCG(seed, 2)), collect(l.server), collect(l.client)}
					for _, size := range append(sizes, 1<<20) {
						n.blobs(size)
					}
					n.array(20_000)
					n.calls(5_000)
					close(over)
					<-done
					require.NoError(t, l.toServer.Conn().Err())
					require.NotZero(t, l.toServer.Conn().Stats().Sealed.PacketsAcked)
				})
			})
		}
	}
}

// TestConformanceOnSockets: over sockets of the system, by GSO where that has it, and
// over a plain net.PacketConn, which has neither that nor writes that do not block.
func TestConformanceOnSockets(t *testing.T) {
	type plain struct{ net.PacketConn }
	for _, hide := range []bool{false, true} {
		backends := []Backend{Window{}, Slices{}}
		if testing.Short() {
			backends = backends[testkit.Seed(t)%2:][:1]
		}
		for _, via := range backends {
			t.Run(fmt.Sprintf("plain %v/%T", hide, via), func(t *testing.T) {
				var ends [2]net.PacketConn
				for i := range ends {
					socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
					require.NoError(t, err)
					defer socket.Close()
					if ends[i] = socket; hide {
						ends[i] = plain{socket}
					}
				}
				callers := new(callers)
				l, leave := joinQUIC(t, ends[0], ends[1], rpc.Config{Sealed: true, Classes: []*rpc.Class{playerClass}}, callers.bind)
				l.awaitSealed(t)
				n := &conformance{t, t.Context(), l, callers, via, true, mayChange, rand.New(rand.NewPCG(1, 2)), collect(l.server), collect(l.client)}
				n.everything()
				conns := []*rpc.Conn{l.toServer.Conn(), l.toClient.Conn()}
				leave()
				for _, c := range conns {
					<-c.Done()
				}
			})
		}
	}
}

// wait waits, and is false when it is over before.
func wait(over <-chan struct{}, d time.Duration) bool {
	select {
	case <-over:
		return false
	case <-time.After(d):
		return true
	}
}

// mayChange is the loss from which on it is unknown which carrier a transfer
// used last: five probes in a row are lost now and then, and QUIC takes over.
const mayChange = 0.2

type conformance struct {
	*testing.T
	ctx context.Context
	loopback
	callers *callers
	via     Backend
	sealed  bool
	loss    float64
	random  *rand.Rand

	atServer, atClient <-chan received
}

// everything moves blobs of all sizes, the largest ones down without a digest, an array and calls.
func (n *conformance) everything() {
	for _, size := range sizes {
		n.blobs(size)
	}
	n.blobs(largest(), Hash(NoDigest))
	n.array(testkit.Brief(15_000, 20_000)) // more than a block
	n.calls(testkit.Brief(1000, 5000))
}

// blobs moves one blob up and one, of unknown size and with these options, down.
func (n *conformance) blobs(size int, opts ...Option) {
	up, down := content(size), content(size)
	n.random.Shuffle(len(down), func(i, j int) { down[i], down[j] = down[j], down[i] })
	first, err := save.Start(n.toServer, bytes.NewReader(up), int64(size), Via(n.via))
	require.NoError(n, err)
	second, err := save.Start(n.toClient, bytes.NewReader(down), -1, append(opts, Via(n.via))...)
	require.NoError(n, err)
	for _, transfer := range []*Transfer{first, second} {
		require.NoError(n, transfer.Wait(n.ctx))
		if n.loss < mayChange {
			require.Equal(n, n.sealed, transfer.Sealed())
		}
		require.Equal(n, Progress{Sent: int64(size), Acked: int64(size), Total: int64(size)}, counts(transfer.Progress()))
	}
	require.True(n, bytes.Equal(up, (<-n.atServer).data))
	require.True(n, bytes.Equal(down, (<-n.atClient).data))
}

func (n *conformance) array(count int) {
	got := make(chan []item, 1)
	items.Handle(n.client, func(in *IncomingArray[item]) {
		go func() {
			all, err := in.Collect(n.ctx)
			require.NoError(n, err)
			got <- all
		}()
	})
	sent := testItems(count)
	require.NoError(n, items.Send(n.ctx, n.toClient, sent, Via(n.via)))
	require.Equal(n, sent, <-got)
}

// mixed moves content by every backend at once, over one connection.
func (n *conformance) mixed() {
	sent := content(testkit.Brief(300_000, 600_000))
	var all []*Transfer
	for _, c := range carriages {
		transfer, err := save.Start(n.toServer, bytes.NewReader(sent), int64(len(sent)), Via(c.via), Weight(1+n.random.IntN(5)))
		require.NoError(n, err)
		all = append(all, transfer)
	}
	for _, transfer := range all {
		require.NoError(n, transfer.Wait(n.ctx))
		require.True(n, bytes.Equal(sent, (<-n.atServer).data))
	}
}
