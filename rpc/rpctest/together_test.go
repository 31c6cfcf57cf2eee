package rpctest_test

import (
	"bytes"
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
	"github.com/quivernet/quiver/stream"
)

var saves = stream.NewBlob("saves")

// together is what a client felt: the 99th percentile of its calls' way, and the mean age of state.
type together struct{ call, age time.Duration }

// feel plays a minute: calls at each tick, states of 50 actors when they
// change, and saves of 1 MiB in a row when they come.
func feel(t *testing.T, seed string, states, bulk bool) (felt together) {
	t.Setenv("QUIVER_SEED", seed)
	path := emulation.Settings{PktLag: 25 * time.Millisecond, PktLoss: 1, Rate: 10e6}
	rpctest.Run(t, path, func(t *testing.T, net *rpctest.Network) {
		c := &camp{t: t, net: net}
		c.server = newBarracks(t, rpc.Config{OnConnect: func(_ *rpc.World, conn *rpc.Conn) { c.conns = append(c.conns, conn) }})
		up, err := stream.Install(c.server.World, stream.Config{})
		require.NoError(t, err)
		net.Server(c.server.World)
		client := newBarracks(t, rpc.Config{})
		down, err := stream.Install(client.World, stream.Config{})
		require.NoError(t, err)
		saves.Handle(down, func(in *stream.IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
		client.conn = net.Client(client.World)
		c.clients = append(c.clients, client)

		var all []*trooper
		for range 50 {
			all = append(all, c.spawn(0, nil))
		}
		net.Advance(2 * time.Second)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for bulk && ctx.Err() == nil {
				_ = saves.Send(ctx, up.Peer(c.conns[0]), bytes.NewReader(make([]byte, 1<<20)), 1<<20)
			}
		}()
		var ways []time.Duration
		var ages time.Duration
		samples := 0
		net.OnTick(func(now time.Time) {
			for _, line := range client.saluted {
				ways = append(ways, now.Sub(time.Unix(0, int64(line))))
			}
			client.saluted = client.saluted[:0]
			_ = salute.Call(all[0].actor, int(now.UnixNano()))
			for _, s := range all[1:] {
				if seen := c.at(0, s).wares.Gold; states && seen != 0 {
					ages += now.Sub(time.Unix(0, seen))
					samples++
				}
				if states {
					s.wares.Gold = now.UnixNano()
				}
			}
		})
		net.Advance(60 * time.Second)
		stop()
		<-done
		slices.Sort(ways)
		felt.call = ways[len(ways)*99/100]
		if samples > 0 {
			felt.age = ages / time.Duration(samples)
		}
	})
	return felt
}

// TestStateBesideCallsAndBulk: states make calls no slower, and bulk makes
// states no older than a tick.
func TestStateBesideCallsAndBulk(t *testing.T) {
	const tick = time.Second / 30
	for _, seed := range []string{"1", "2", "3"} {
		alone, states, all := feel(t, seed, false, false), feel(t, seed, true, false), feel(t, seed, true, true)
		t.Logf("calls alone %v; beside states %v, which are %v old; beside bulk %v, %v", alone.call, states.call, states.age, all.call, all.age)
		require.LessOrEqual(t, states.call, alone.call+tick, "which is the grain of what is measured")
		require.LessOrEqual(t, all.age, states.age+tick)
	}
}
