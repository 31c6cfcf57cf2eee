package rpctest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

var (
	ant      = rpc.NewClass("AttackAnt")
	antState = rpc.NewState[antBody](ant)
)

type antBody struct{ N uint16 }

type antObject struct{ body antBody }

// Many small actors that all change at each tick, on a good path: updates cost
// 73 bytes where they wait, so that 3,590 fill what may wait between two ticks
// of the client. How stale does a client's world become?
func TestCrowdOfSmallActors(t *testing.T) {
	for _, count := range []int{3000, 6000} {
		rpctest.Run(t, emulation.Settings{PktLag: 5 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
			there := map[rpc.Ref]*antObject{}
			var b *rpc.Binding[*antObject]
			bind := func(w *rpc.World) *rpc.Binding[*antObject] {
				b := rpc.Bind(w, ant, func(a *rpc.Actor) *antObject {
					o := new(antObject)
					if !w.IsServer() {
						there[a.Ref()] = o
					}
					return o
				})
				rpc.Replicate(b, antState, func(o *antObject) *antBody { return &o.body })
				return b
			}
			_, _, at, from := pairOf(t, net, func(w *rpc.World) { b = bind(w) }, func(w *rpc.World) { bind(w) }, rpc.Config{})
			type both struct {
				ref rpc.Ref
				o   *antObject
			}
			var all []both
			for i := range count {
				a, o, err := rpc.Spawn(b, nil, nil, rpc.AlwaysRelevant())
				require.NoError(t, err)
				all = append(all, both{a.Ref(), o})
				if i%200 == 0 {
					net.Advance(time.Second / 3)
				}
			}
			net.Advance(5 * time.Second)
			require.Len(t, there, count)
			worst, sum, samples := 0, 0, 0
			for i := range 300 {
				for _, p := range all {
					p.o.body.N++
				}
				net.Advance(time.Second / 30)
				if i < 150 {
					continue
				}
				for _, p := range all {
					behind := int(p.o.body.N - there[p.ref].body.N)
					worst, sum, samples = max(worst, behind), sum+behind, samples+1
				}
			}
			t.Logf("%d: worst %d ticks behind, mean %.1f, dropped there %d, here %d, out %d", count, worst, float64(sum)/float64(samples), from.Stats().Drops.State, at.Stats().Drops.State, at.Stats().BytesOut)
			net.Advance(20 * time.Second)
			for _, p := range all {
				require.Equal(t, p.o.body.N, there[p.ref].body.N)
			}
			require.Less(t, worst, 90, "3 s")
		})
	}
}

// An actor that shall sleep and whose list the game goes on changing never does
// where the path takes longer than a tick.
func TestListThatChangesAllTheTimeSleeps(t *testing.T) {
	rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(-1, nil)
		net.Advance(2 * time.Second)
		require.NoError(t, s.actor.SetDormant(true))
		for i := range 300 {
			require.NoError(t, s.bag.Set(itemID(i%10), item{Count: i}))
			net.Advance(time.Second / 30)
		}
		require.True(t, c.at(0, s).actor.Dormant(), "10 s after SetDormant")
	})
}

// A client of small actors that are torn off, dormant or closed in the tick in
// which they were spawned.
func TestLivesOfOneTick(t *testing.T) {
	rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		for i := range 120 {
			s := c.spawn(i%2-1, func(s *trooper) {
				s.pose.Health = uint16(i)
				_ = s.bag.Set(1, item{Count: i})
			})
			switch i % 4 {
			case 0:
				require.NoError(t, s.actor.TearOff())
			case 1:
				require.NoError(t, s.actor.SetDormant(true))
			case 2:
				require.NoError(t, c.server.Destroy(s.actor))
			case 3:
				s.actor.CloseTo(c.conns[0])
				require.NoError(t, s.actor.OpenTo(c.conns[0]))
			}
			net.Advance(time.Second / 30)
		}
		net.Advance(10 * time.Second)
		require.NoError(t, c.clients[0].conn.Err())
		for ref, copied := range c.clients[0].troopers {
			i := int(copied.pose.Health)
			require.Equal(t, i, copied.bag.Len()*i, "actor %d", ref)
			got, _ := copied.bag.Get(1)
			require.Equal(t, i, got.Count, "actor %d", ref)
		}
		require.Len(t, c.clients[0].troopers, 90)
	})
}
