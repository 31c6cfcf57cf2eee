package stream

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// carriages are the ways that content may travel; what one of them does, all do.
var carriages = []struct {
	name   string
	via    Backend
	sealed bool // as a transfer reports
}{
	{"window over quic", Window{Lanes: 4}, false},
	{"slices over quic", Slices{}, false},
	{"window sealed", Window{Lanes: 4}, true},
	{"slices sealed", Slices{}, true},
}

// overCarriage runs fn over a path, with the sealed carrier open where that is to be so.
func overCarriage(t *testing.T, path netsim.Config, sealed bool, fn func(ctx context.Context, l loopback)) {
	if sealed {
		overSealed(t, path, func(t *testing.T, l loopback) { fn(t.Context(), l) })
		return
	}
	overPath(t, path, fn)
}

// TestConformance runs one table over every backend and carrier, with the same seeds: both directions at once, sizes that
// are known and not, arrays, and content that is there already.
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
				overCarriage(t, path, c.sealed, func(ctx context.Context, l loopback) {
					n := &conformance{t, ctx, l, c.via, c.sealed, loss, rand.New(rand.NewPCG(seed, 2)), collect(l.server), collect(l.client)}
					for _, size := range sizes {
						n.blobs(size)
					}
					n.array(20_000)
					n.mixed()
					require.Zero(n, l.toServer.Conn().Stats().Drops.UnknownMachine+l.toClient.Conn().Stats().Drops.UnknownMachine)
					require.Zero(n, l.toServer.Stats().SlicesRefused+l.toClient.Stats().SlicesRefused, "who keeps to his credit finds room")
				})
			})
		}
	}
}

// TestConformanceOfAChangingCarrier: with a sealed carrier that opens late, or falls silent and comes back while content is
// under way, whichever carries its parts.
func TestConformanceOfAChangingCarrier(t *testing.T) {
	for name, change := range map[string]func(g *gate, over <-chan struct{}){
		"opens late": func(g *gate, over <-chan struct{}) {
			wait(over, 700*time.Millisecond)
			g.shut.Store(false)
		},
		"silent and back": func(g *gate, over <-chan struct{}) {
			for shut := false; wait(over, 1500*time.Millisecond); shut = !shut {
				g.shut.Store(shut)
			}
		},
	} {
		for _, via := range []Backend{Window{}, Window{Lanes: 4}, Slices{}} {
			t.Run(fmt.Sprintf("%s/%T%+v", name, via, via), func(t *testing.T) {
				var g gate
				g.shut.Store(true)
				seed := testkit.Seed(t)
				path := g.over(netsim.Config{Delay: 10 * time.Millisecond, Rate: 3e6, Duplicate: 0.01, Reorder: 0.01, Seed: seed})
				overQUICWith(t, path, rpc.Config{Sealed: true}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
					over, done := make(chan struct{}), make(chan struct{})
					go func() {
						defer close(done)
						change(&g, over)
					}()
					n := &conformance{t, t.Context(), l, via, true, mayChange, rand.New(rand.NewPCG(seed, 2)), collect(l.server), collect(l.client)}
					for _, size := range append(sizes, 1<<20) {
						n.blobs(size)
					}
					n.array(20_000)
					close(over)
					<-done
					require.NoError(t, l.toServer.Conn().Err())
					require.NotZero(t, l.toServer.Conn().Stats().Sealed.PacketsAcked)
				})
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

// mayChange is the loss from which on nobody can say which carrier moved a transfer last: five probes in a row are lost now
// and then, and QUIC goes on.
const mayChange = 0.2

type conformance struct {
	*testing.T
	ctx context.Context
	loopback
	via    Backend
	sealed bool
	loss   float64
	random *rand.Rand

	atServer, atClient <-chan received
}

// blobs moves one blob up and one down, one of them of unknown size.
func (n *conformance) blobs(size int) {
	up, down := content(size), content(size)
	n.random.Shuffle(len(down), func(i, j int) { down[i], down[j] = down[j], down[i] })
	first, err := save.Start(n.toServer, bytes.NewReader(up), int64(size), Via(n.via))
	require.NoError(n, err)
	second, err := save.Start(n.toClient, bytes.NewReader(down), -1, Via(n.via))
	require.NoError(n, err)
	for _, transfer := range []*Transfer{first, second} {
		require.NoError(n, transfer.Wait(n.ctx))
		if n.loss < mayChange {
			require.Equal(n, n.sealed, transfer.Sealed())
		}
		require.Equal(n, Progress{Sent: int64(size), Acked: int64(size), Total: int64(size)}, transfer.Progress())
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
	sent := content(600_000)
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
