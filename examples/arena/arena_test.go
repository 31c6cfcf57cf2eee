package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// play plays the match of main in virtual time. What it draws follows from the network's seed.
func play(t *testing.T, weather rpc.Emulation) *felt {
	f := newFelt()
	weather.Rate = Uplink
	rpctest.Run(t, weather, func(t *testing.T, net *rpctest.Network) {
		s, err := newServer(rpc.Config{OnDisconnect: func(_ *rpc.World, c *rpc.Conn, err error) { t.Log(net.Elapsed(), c, err) }}, net.Seed())
		require.NoError(t, err)
		net.Server(s.world)
		var bots []*bot
		net.OnTick(func(now time.Time) {
			s.tick(now)
			for _, b := range bots {
				b.tick(now)
			}
		})
		join := func(who string) *bot {
			b, err := newBot(rpc.Config{}, net.Seed()+uint64(len(bots)), f, who)
			require.NoError(t, err)
			b.needsLevel = who == "joiner"
			bots = append(bots, b)
			net.Client(b.world)
			return b
		}
		for range Bots {
			join("others")
		}
		net.Advance(Settle)
		f.begin("before")
		net.Advance(Part)
		f.begin("during")
		began := net.Elapsed()
		late := join("joiner")
		require.True(t, net.Until(time.Minute, func() bool { return len(late.hasLevel) > 0 }))
		require.NoError(t, <-late.hasLevel)
		took := net.Elapsed() - began
		f.begin("after")
		net.Advance(Part)

		require.Len(t, s.world.Conns(), Bots+1, "nobody was taken for a cheat")
		require.Greater(t, s.hits, s.shots/2)
		require.NotZero(t, late.booms)
		seen, copies := len(f.samples[feeling{"others", "before", age}])+len(f.samples[feeling{"others", "before", fresh}]), 0
		copies = Bots * TickRate * int(Part/time.Second)
		var table strings.Builder
		f.print(&table)
		t.Logf("download in %v, %d of %d shots hit, %.1f others in sight\n%s", took, s.hits, s.shots, float64(seen)/float64(copies), &table)
	})
	return f
}

func TestMatch(t *testing.T) { play(t, rpctest.Bad) }
