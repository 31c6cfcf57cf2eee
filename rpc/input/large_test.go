package input

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

var (
	sketchClass = rpc.NewClass("Sketch")
	strokes     = New[[]byte](sketchClass, "Stroke", 60)
)

// sketch is the object of a sketch on either side. Its inputs may be large.
type sketch struct {
	queue   Queue[[]byte]
	strokes *Predictor[[]byte]
}

// TestLargeInputs: a message with more inputs than MaxBunch allows repeats fewer of them, so inputs
// arrive in time even if only one fits. It once failed, and so did all later ones, because each
// of them had even more to repeat. An input that doesn't fit by itself is refused at the call, with
// an error that names its size, the limit and the setting, and smaller ones go on after it.
func TestLargeInputs(t *testing.T) {
	const limit = 1000
	rpctest.Run(t, emulation.Settings{PktLag: 50 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
		net.SetTickRate(60)
		var here, there *sketch
		config := rpc.Config{Bunch: bunch.Config{MaxBunch: limit}}
		join := func(config rpc.Config, made **sketch) (*rpc.World, *rpc.Binding[*sketch]) {
			w, err := rpc.NewWorld(config)
			require.NoError(t, err)
			b := rpc.Bind(w, sketchClass, func(a *rpc.Actor) *sketch {
				*made = &sketch{strokes: strokes.Predictor(a)}
				return *made
			})
			Serve(b, strokes, func(o *sketch) *Queue[[]byte] { return &o.queue })
			Predict(b, strokes, func(o *sketch) *Predictor[[]byte] { return o.strokes })
			return w, b
		}
		var served *rpc.Binding[*sketch]
		config.OnConnect = func(_ *rpc.World, c *rpc.Conn) {
			_, _, err := rpc.Spawn(served, c, nil)
			require.NoError(t, err)
		}
		server, served := join(config, &here)
		net.Server(server)
		client, _ := join(rpc.Config{}, &there)
		net.Client(client)
		tick := uint64(0)
		size, failed := 10, error(nil)
		net.OnTick(func(now time.Time) {
			tick++
			if here != nil {
				here.queue.Take(now, tick)
			}
			if there != nil {
				failed = there.strokes.Tick(now, func(uint64) []byte { return make([]byte, size) })
			}
		})
		net.Advance(3 * time.Second)
		for _, size = range []int{300, 600, limit - maxHead} {
			net.Advance(time.Second)
			before := here.queue.Stats()
			net.Advance(5 * time.Second)
			after := here.queue.Stats()
			require.NoError(t, failed)
			require.Less(t, after.Missed-before.Missed, uint64(10), "of 300 inputs with %d bytes", size)
		}

		size = limit
		net.Advance(time.Second)
		require.ErrorContains(t, failed, " is too large for a message: rpc: Sketch.Stroke: call of 10")
		require.ErrorContains(t, failed, "the limit is 1000 (Config.Bunch.MaxBunch)")
		require.ErrorIs(t, failed, bunch.ErrBunchTooLarge)
		size = 10
		net.Advance(time.Second)
		before := here.queue.Stats()
		net.Advance(5 * time.Second)
		require.NoError(t, failed)
		require.Less(t, here.queue.Stats().Missed-before.Missed, uint64(10))
	})
}
