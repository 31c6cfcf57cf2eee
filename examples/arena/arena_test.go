package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// play plays a match in virtual time.
func play(t *testing.T, f *felt) {
	bad := rpctest.Bad
	bad.Rate = 20e6
	rpctest.Run(t, bad, func(t *testing.T, net *rpctest.Network) {
		s, err := newServer(rpc.Config{}, net.Seed())
		require.NoError(t, err)
		net.Server(s.world)
		var bots []*bot
		net.OnTick(func(now time.Time) {
			s.tick(now)
			for _, b := range bots {
				b.tick(now)
			}
		})
		join := func(w who) {
			b, err := newBot(rpc.Config{}, fmt.Sprint("bot ", len(bots)), net.Seed()+uint64(len(bots)), f, w)
			require.NoError(t, err)
			bots = append(bots, b)
			net.Client(b.world)
		}
		for range 16 {
			join(others)
		}
		net.Advance(settle)
		f.settled()
		net.Advance(10 * time.Second)
		join(joiner)
		began := net.Elapsed()
		require.True(t, net.Until(time.Minute, func() bool {
			select {
			case <-f.done:
				return true
			default:
				return false
			}
		}))
		t.Logf("download took %v", net.Elapsed()-began)
		require.NoError(t, f.err)
		net.Advance(10 * time.Second)
		require.Len(t, s.world.Conns(), 17)
		require.NoError(t, s.err)
		t.Logf("%d shots, %d hits, sees %.1f", s.shots, s.hits, float64(f.seen)/float64(f.ticks))
	})
}

func TestArena(t *testing.T) {
	f := newFelt()
	play(t, f)
	f.print(os.Stdout)
}
