package rpctest_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
	"github.com/quivernet/quiver/stream"
)

// TestUpdatesOnNarrowPaths: 400 soldiers that all change at each tick need 1 Mbit/s.
// If the path carries less, updates use what it carries, without a standing queue.
func TestUpdatesOnNarrowPaths(t *testing.T) {
	for _, rate := range []int64{100e3, 200e3, 400e3, 600e3} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			rpctest.Run(t, emulation.Settings{PktLag: 40 * time.Millisecond, Rate: rate}, func(t *testing.T, net *rpctest.Network) {
				c := newCamp(t, net, 1, rpc.Config{})
				var all []*trooper
				for range 400 {
					all = append(all, c.spawn(-1, nil))
				}
				stir := func() {
					for _, s := range all {
						s.wares.Gold++
						s.pose.Health++
					}
					net.Advance(time.Second / 30)
				}
				for range 450 {
					stir()
				}
				before, longest := c.conns[0].Stats().BytesOut, time.Duration(0)
				for range 600 {
					stir()
					longest = max(longest, c.conns[0].Stats().SmoothedRTT)
				}
				used := float64(c.conns[0].Stats().BytesOut-before) * 8 / 20
				t.Logf("%.0f of %d kbit/s, round trips of at most %v", used/1e3, rate/1e3, longest)
				require.Greater(t, used, 0.3*float64(rate))
				require.Less(t, longest, 2*time.Second)
			})
		})
	}
}

// TestSlowDownlinkOfOneClient: EmulateOne's Rate also limits what that client
// receives, and no other, without a standing queue, until Emulate removes it.
// Before, it limited only what the client sends.
func TestSlowDownlinkOfOneClient(t *testing.T) {
	const size = 125_000 // a second at 1 Mbit/s
	topic, slow := stream.NewBlob("map"), emulation.Settings{PktLag: 20 * time.Millisecond, Rate: 1e6}
	rpctest.Run(t, emulation.Settings{PktLag: 20 * time.Millisecond, Rate: 100e6}, func(t *testing.T, net *rpctest.Network) {
		server, down := streaming(t)
		net.Server(server)
		for range 2 {
			client, up := streaming(t)
			topic.Handle(up, func(in *stream.IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
			net.Client(client)
		}
		net.Advance(time.Second)
		first, second := server.Conns()[0], server.Conns()[1]
		took := func(to *rpc.Conn) float64 {
			began := net.Elapsed()
			transfer, err := topic.Start(down.Peer(to), strings.NewReader(strings.Repeat("m", size)), size)
			require.NoError(t, err)
			require.True(t, net.Until(time.Minute, func() bool { return transfer.Progress().Acked == size }))
			return (net.Elapsed() - began).Seconds()
		}
		net.EmulateOne(first, slow)
		require.InDelta(t, 1.2, took(first), 0.25)
		require.Less(t, first.Stats().SmoothedRTT, 150*time.Millisecond)
		require.Less(t, took(second), 0.4)
		net.EmulateOne(first, emulation.Settings{PktLag: 20 * time.Millisecond})
		require.Less(t, took(first), 0.4)
		net.EmulateOne(first, slow)
		net.Emulate(emulation.Settings{PktLag: 20 * time.Millisecond, Rate: 100e6})
		require.Less(t, took(first), 0.4)
		slow.Rate, slow.IncomingRate = 100e6, 1e6
		net.EmulateOne(first, slow)
		require.InDelta(t, 1.2, took(first), 0.25)
		require.Less(t, took(second), 0.4)
		net.Emulate(slow)
		require.InDelta(t, 1.2, took(second), 0.25)
	})
}

// TestOverflowOfAWorldThatStands: if the buffer is full because the other side
// takes nothing, the error says so, and otherwise how to call.
func TestOverflowOfAWorldThatStands(t *testing.T) {
	for _, stands := range []bool{true, false} {
		off(t, func(t *testing.T, net *rpctest.Network) {
			server, _ := droneWorld(t, nil)
			client, _ := droneWorld(t, nil)
			net.Server(server)
			net.Client(client)
			server.Post(func() { _, _ = server.Spawn(drone, nil, rpc.AlwaysRelevant()) })
			net.Advance(time.Second)
			if stands {
				net.Pause(server, time.Hour)
			}
			var err error
			for calls := 0; err == nil && calls < 500; calls++ {
				for a := range client.Actors() {
					err = droneLoad.Call(a, make(rpc.Raw, 20_000))
				}
				if stands {
					net.Advance(100 * time.Millisecond)
				}
			}
			require.ErrorContains(t, err, "ReliableBufferOverflow")
			if stands {
				require.Regexp(t, `the peer is alive, but nothing has driven its world for \d+(\.\d)?s$`, err.Error())
			} else {
				require.ErrorContains(t, err, "call less often or unreliably")
			}
		})
	}
}

var (
	flare      = rpc.NewClass("Flare")
	flareState = rpc.NewState[flareBody](flare)
	flareBang  = rpc.Multicast[string](flare, "Bang", rpc.Reliable)
)

type flareBody struct{ X, Y, Z, W float64 }

type flareObject struct {
	actor *rpc.Actor
	body  flareBody
	seen  int // updates
}

// TestResendsCostTheirOwnerTheWorldRate: clients whose path loses most packets have reliable calls
// sent again and again, which WorldRate doesn't delay. The states of the others arrive all the
// same. None did before.
func TestResendsCostTheirOwnerTheWorldRate(t *testing.T) {
	const good, bad, seconds = 4, 5, 5
	path := emulation.Settings{PktLag: 10 * time.Millisecond}
	rpctest.Run(t, path, func(t *testing.T, net *rpctest.Network) {
		bind := func() (*rpc.World, *[]*flareObject) {
			w, err := rpc.NewWorld(rpc.Config{WorldRate: 600_000})
			require.NoError(t, err)
			all := new([]*flareObject)
			b := rpc.Bind(w, flare, func(a *rpc.Actor) *flareObject {
				*all = append(*all, &flareObject{actor: a})
				return (*all)[len(*all)-1]
			})
			rpc.Replicate(b, flareState, func(f *flareObject) *flareBody { return &f.body })
			rpc.OnRep(b, flareState, func(f *flareObject, _ flareBody) { f.seen++ })
			rpc.On(b, flareBang, func(*flareObject, *rpc.Call, string) {})
			return w, all
		}
		server, flares := bind()
		net.Server(server)
		for range 40 {
			_, err := server.Spawn(flare, nil, rpc.AlwaysRelevant())
			require.NoError(t, err)
		}
		ticks := 0
		net.OnTick(func(time.Time) { // 58 kB/s for each client
			ticks++
			for i, f := range *flares {
				f.body.X = float64(ticks)
				if (i+ticks)%6 == 0 {
					require.NoError(t, flareBang.Call(f.actor, strings.Repeat("x", 200)))
				}
			}
		})
		var seen []*[]*flareObject
		lossy := path
		lossy.PktLoss = 60
		for i := range good + bad {
			w, copies := bind()
			conn := net.Client(w)
			if i < good {
				seen = append(seen, copies)
			} else {
				net.EmulateOne(conn, lossy)
			}
		}
		net.Advance(15 * time.Second)
		before := updatesOf(seen)
		net.Advance(seconds * time.Second)
		require.Greater(t, updatesOf(seen)-before, good*40*30*seconds*9/10)
	})
}

// updatesOf returns how many updates the copies of all clients have seen.
func updatesOf(clients []*[]*flareObject) (sum int) {
	for _, copies := range clients {
		for _, f := range *copies {
			sum += f.seen
		}
	}
	return sum
}
