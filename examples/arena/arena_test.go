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
func play(t *testing.T, f *felt) {
	weather := rpctest.Bad
	weather.Rate = Uplink
	rpctest.Run(t, weather, func(t *testing.T, net *rpctest.Network) {
		s := newServer(rpc.Config{}, net.Seed())
		net.Server(s.world)
		var bots []*bot
		net.OnTick(func(now time.Time) {
			s.tick(now)
			for _, b := range bots {
				b.tick(now)
			}
		})
		join := func(who string) *bot {
			b := newBot(rpc.Config{}, net.Seed()+uint64(len(bots)), f, who)
			bots = append(bots, b)
			net.Client(b.world)
			return b
		}
		for range Bots {
			join("others")
		}
		net.Advance(Settle)
		inSight := 0
		for _, b := range bots {
			for range b.fighters.All() {
				inSight++
			}
		}
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
		require.InDelta(t, 0.5, float64(inSight-Bots)/Bots/(Bots-1), 0.25, "a bot sees half of the others")
		var table strings.Builder
		f.print(&table)
		t.Logf("download in %v, %d of %d shots hit\n%s", took, s.hits, s.shots, &table)
	})
}

func TestMatch(t *testing.T) { play(t, newFelt()) }
