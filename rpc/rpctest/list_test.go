package rpctest_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// bagOf returns what a bag holds.
func bagOf(s *trooper) map[itemID]item { return maps.Collect(s.bag.All()) }

// 12.1h: only changed items travel, removals until they are kept.
func TestListItemByItem(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(0, func(s *trooper) { _ = s.bag.Set(1, item{Name: "sword"}) })
		net.Advance(time.Second)
		require.Equal(t, map[itemID]item{1: {Name: "sword"}}, bagOf(c.at(0, s)), "lists follow the open")
		for key := range itemID(500) {
			require.NoError(t, s.bag.Set(key, item{Name: "arrow", Count: int(key)}))
		}
		net.Advance(time.Second)
		c.requireSame()
		before := c.conns[0].Stats().BytesOut
		s.bag.Delete(7)
		require.NoError(t, s.bag.Set(8, item{Name: "bolt"}))
		require.NoError(t, s.bag.Set(9, item{Name: "arrow", Count: 9}), "as it was")
		net.Advance(100 * time.Millisecond)
		require.Less(t, c.conns[0].Stats().BytesOut-before, uint64(100))
		net.Advance(time.Second)
		c.requireSame()
	})
}

func TestListIsFull(t *testing.T) {
	var l rpc.List[int, int]
	for i := range 2048 {
		require.NoError(t, l.Set(i, i))
	}
	require.ErrorIs(t, l.Set(2048, 0), rpc.ErrTooLong)
	require.NoError(t, l.Set(5, 6))
	require.True(t, l.Delete(5))
	require.False(t, l.Delete(5))
	require.NoError(t, l.Set(2048, 0))
	require.Equal(t, 2048, l.Len())
}

// Copies that sleep, or are torn off, have the lists that the server had.
func TestListsWithoutAChannel(t *testing.T) {
	rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(-1, nil)
		for key := range itemID(100) {
			require.NoError(t, s.bag.Set(key, item{Count: 1}))
		}
		net.Advance(10 * time.Second)
		require.NoError(t, s.bag.Set(3, item{Count: 3}))
		require.NoError(t, s.actor.SetDormant(true))
		net.Advance(10 * time.Second)
		require.True(t, c.at(0, s).actor.Dormant())
		require.Equal(t, bagOf(s), bagOf(c.at(0, s)))

		for key := range itemID(50) {
			s.bag.Delete(key)
		}
		require.NoError(t, s.bag.Set(200, item{Count: 200}))
		net.Advance(10 * time.Second)
		require.Len(t, bagOf(c.at(0, s)), 100, "it sleeps")
		copied := c.at(0, s)
		require.NoError(t, s.actor.SetDormant(false))
		net.Advance(10 * time.Second)
		require.Equal(t, bagOf(s), bagOf(copied), "the same object, without what went meanwhile")
		require.Equal(t, bagOf(copied), copied.told)

		s.bag.Delete(60)
		require.NoError(t, s.bag.Set(61, item{Count: 61}))
		require.NoError(t, s.actor.TearOff())
		net.Advance(10 * time.Second)
		require.True(t, copied.actor.TornOff())
		require.Equal(t, bagOf(s), bagOf(copied))
	})
}

// TestListsAfterFlushDormancy: as with states, changes between FlushDormancy
// and the next Flush are sent, and changes before it.
func TestListsAfterFlushDormancy(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(0, nil)
		require.NoError(t, s.bag.Set(1, item{Name: "key"}))
		require.NoError(t, s.actor.SetDormant(true))
		net.Advance(time.Second)
		require.True(t, c.at(0, s).actor.Dormant())
		for i, wake := range []func(){
			func() { require.NoError(t, s.actor.FlushDormancy()) },
			func() { require.NoError(t, cheer.Call(s.actor, 1)) },
		} {
			wake()
			s.wares.Gold++
			require.NoError(t, s.bag.Set(itemID(10+i), item{Name: "new"}))
			require.NoError(t, s.bag.Set(1, item{Name: "key", Count: i + 1}))
			net.Advance(time.Second)
			require.True(t, c.at(0, s).actor.Dormant())
			c.requireSameAsleep(s)
			s.bag.Delete(itemID(10 + i))
			wake()
			net.Advance(time.Second)
			c.requireSameAsleep(s)
		}
	})
}

// TestListsWhileFallingAsleep: changes before a client has acknowledged what
// puts its copy to sleep are sent, too, with the open that wakes the actor.
func TestListsWhileFallingAsleep(t *testing.T) {
	for name, wake := range map[string]func(s *trooper) error{
		"FlushDormancy": func(s *trooper) error { return s.actor.FlushDormancy() },
		"a Client RPC":  func(s *trooper) error { return salute.Call(s.actor, 1) },
		"a Multicast":   func(s *trooper) error { return cheer.Call(s.actor, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, emulation.Settings{PktLag: 200 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
				c := newCamp(t, net, 1, rpc.Config{})
				s := c.spawn(0, func(s *trooper) { _ = s.bag.Set(1, item{Name: "key"}) })
				require.NoError(t, s.actor.SetDormant(true))
				net.Advance(100 * time.Millisecond) // the open is on its way
				s.wares.Gold++
				s.bag.Delete(1)
				require.NoError(t, s.bag.Set(2, item{Name: "coin"}))
				require.NoError(t, wake(s))
				net.Advance(3 * time.Second)
				require.True(t, c.at(0, s).actor.Dormant())
				c.requireSameAsleep(s)
			})
		})
	}
}

// requireSameAsleep asserts that a client's copy, which sleeps, is as the server has it.
func (c *camp) requireSameAsleep(s *trooper) {
	c.t.Helper()
	require.Equal(c.t, s.wares, c.at(0, s).wares)
	require.Equal(c.t, maps.Collect(s.bag.All()), maps.Collect(c.at(0, s).bag.All()))
}

// The class of TestTheOpenCarriesTheLists.
var (
	coffer      = rpc.NewClass("Coffer")
	cofferGold  = rpc.NewList[uint16, uint32](coffer, "Gold")
	cofferGems  = rpc.NewList[itemID, item](coffer, "Gems")
	cofferCall  = rpc.Multicast[rpc.None](coffer, "Look", rpc.Reliable)
	cofferLabel = rpc.NewState[cofferText](coffer)
)

type (
	cofferText   struct{ Number int }
	cofferObject struct {
		label cofferText
		gold  rpc.List[uint16, uint32]
		gems  rpc.List[itemID, item]
		seen  []int // gold, gems and listed at each look
		told  int   // by OnList
	}
)

func (o *cofferObject) look() { o.seen = append(o.seen, o.gold.Len(), o.gems.Len(), o.told) }

// newCoffers makes a world of coffers.
func newCoffers(t *testing.T, config rpc.Config) (*rpc.World, *rpc.Binding[*cofferObject]) {
	w, err := rpc.NewWorld(config)
	require.NoError(t, err)
	b := rpc.Bind(w, coffer, func(*rpc.Actor) *cofferObject {
		o := new(cofferObject)
		if !w.IsServer() {
			w.Post(o.look)
		}
		return o
	})
	rpc.ReplicateList(b, cofferGold, func(o *cofferObject) *rpc.List[uint16, uint32] { return &o.gold })
	rpc.Replicate(b, cofferLabel, func(o *cofferObject) *cofferText { return &o.label })
	rpc.ReplicateList(b, cofferGems, func(o *cofferObject) *rpc.List[itemID, item] { return &o.gems })
	rpc.OnList(b, cofferGems, func(o *cofferObject, _ rpc.ListChange[itemID, item]) { o.told++ })
	rpc.On(b, cofferCall, func(o *cofferObject, _ *rpc.Call, _ rpc.None) { o.look() })
	return w, b
}

// TestTheOpenCarriesTheLists: a client has the items before any call runs, however long the path,
// as long as they fit. The rest follows.
func TestTheOpenCarriesTheLists(t *testing.T) {
	for name, row := range map[string]struct {
		config     rpc.Config
		gold, gems int
		had        func(gold, gems int) bool // in the first call, when gold and gems of the items are there
	}{
		"few":          {rpc.Config{}, 4, 3, func(gold, gems int) bool { return gold == 4 && gems == 3 }},
		"none":         {rpc.Config{}, 0, 0, func(gold, gems int) bool { return gold == 0 && gems == 0 }},
		"too many":     {rpc.Config{}, 2048, 2048, func(gold, gems int) bool { return gold == 2048 && gems > 100 && gems < 2048 }},
		"small bunch":  {rpc.Config{Bunch: bunch.Config{MaxBunch: 4096}}, 100, 2000, func(gold, gems int) bool { return gold == 100 && gems > 50 && gems < 2000 }},
		"small buffer": {rpc.Config{Bunch: bunch.Config{ReliableBuffer: 8}}, 2048, 0, func(gold, gems int) bool { return gold > 100 && gold < 2048 }},
	} {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, emulation.Settings{PktLag: 100 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
				server, serverBinding := newCoffers(t, row.config)
				net.Server(server)
				client, clientBinding := newCoffers(t, row.config)
				net.Client(client)
				net.Advance(5 * time.Second)
				a, o, err := rpc.Spawn(serverBinding, server.Conns()[0], func(o *cofferObject) {
					o.label.Number = 7
					for i := range row.gold {
						require.NoError(t, o.gold.Set(uint16(i), 1))
					}
					for i := range row.gems {
						require.NoError(t, o.gems.Set(itemID(i), item{Name: "ruby"}))
					}
				})
				require.NoError(t, err)
				require.NoError(t, cofferCall.Call(a, rpc.None{}))
				net.Advance(5 * time.Second)
				for _, copied := range clientBinding.All() {
					require.Len(t, copied.seen, 6)
					require.True(t, row.had(copied.seen[0], copied.seen[1]), "%v", copied.seen)
					require.Equal(t, copied.seen[1], copied.seen[2], "OnList ran before the call")
					require.Equal(t, copied.seen[:3], copied.seen[3:], "in the function posted, and in the call")
					require.Equal(t, o.label, copied.label)
					require.Equal(t, maps.Collect(o.gold.All()), maps.Collect(copied.gold.All()))
					require.Equal(t, maps.Collect(o.gems.All()), maps.Collect(copied.gems.All()))
					require.Equal(t, row.gems, copied.told)
				}
				require.Len(t, maps.Collect(clientBinding.All()), 1)
			})
		})
	}
}

// TestManyOpensWithLists: a client that joins a world of many long lists isn't sent all of them
// at once.
func TestManyOpensWithLists(t *testing.T) {
	rpctest.Run(t, rpctest.Average, func(t *testing.T, net *rpctest.Network) {
		config := rpc.Config{SendLimit: 512 << 10}
		server, serverBinding := newCoffers(t, config)
		for range 100 {
			_, _, err := rpc.Spawn(serverBinding, nil, func(o *cofferObject) {
				for i := range 2000 {
					require.NoError(t, o.gold.Set(uint16(i), uint32(i)))
				}
			}, rpc.AlwaysRelevant())
			require.NoError(t, err)
		}
		net.Server(server)
		client, clientBinding := newCoffers(t, config)
		net.Client(client)
		require.True(t, net.Until(2*time.Minute, func() bool {
			items := 0
			for _, copied := range clientBinding.All() {
				items += copied.gold.Len()
			}
			return items == 100*2000
		}))
		require.NoError(t, server.Conns()[0].Err())
	})
}

// TestTheOpenCarriesTheListsOfSleepers: what was removed while an actor slept is gone when the call
// that wakes it runs, and so it is for clients that join later.
func TestTheOpenCarriesTheListsOfSleepers(t *testing.T) {
	rpctest.Run(t, emulation.Settings{PktLag: 100 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
		server, serverBinding := newCoffers(t, rpc.Config{})
		net.Server(server)
		client, clientBinding := newCoffers(t, rpc.Config{})
		net.Client(client)
		net.Advance(5 * time.Second)
		a, o, err := rpc.Spawn(serverBinding, nil, func(o *cofferObject) {
			require.NoError(t, o.gold.Set(1, 1))
			require.NoError(t, o.gold.Set(2, 2))
		}, rpc.AlwaysRelevant())
		require.NoError(t, err)
		require.NoError(t, a.SetDormant(true))
		net.Advance(5 * time.Second)
		o.gold.Delete(1)
		o.gold.Delete(2)
		require.NoError(t, o.gold.Set(3, 3))
		require.NoError(t, a.SetDormant(false))
		require.NoError(t, cofferCall.Call(a, rpc.None{}))
		net.Advance(5 * time.Second)
		for _, copied := range clientBinding.All() {
			require.Equal(t, []int{2, 0, 0, 1, 0, 0}, copied.seen)
			require.Equal(t, map[uint16]uint32{3: 3}, maps.Collect(copied.gold.All()))
		}
		late, lateBinding := newCoffers(t, rpc.Config{})
		net.Client(late)
		net.Advance(5 * time.Second)
		for _, copied := range lateBinding.All() {
			require.Equal(t, []int{1, 0, 0}, copied.seen)
		}
		require.Len(t, maps.Collect(lateBinding.All()), 1)
	})
}
