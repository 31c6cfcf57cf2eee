package rpctest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// What attackers found: a full list whose items are replaced kicks honest clients when a packet
// with removals is lost: additions come first and the client counts more than 2,048 items.
func TestFullListThatChurnsUnderLoss(t *testing.T) {
	rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(-1, nil)
		for key := range itemID(2048) {
			require.NoError(t, s.bag.Set(key, item{Count: 1}))
		}
		net.Advance(10 * time.Second)
		require.Len(t, bagOf(c.at(0, s)), 2048)
		next := itemID(2048)
		for range 100 {
			for i := range itemID(300) {
				s.bag.Delete(next + i - 2048)
			}
			for range 300 {
				require.NoError(t, s.bag.Set(next, item{Count: 2}))
				next++
			}
			net.Advance(time.Second / 3)
			require.NoError(t, c.clients[0].conn.Err())
		}
		net.Advance(5 * time.Second)
		require.NoError(t, c.clients[0].conn.Err())
		c.requireSame()
	})
}

// What attackers found: the same without any loss, when a copy with a full list
// wakes: the census of what is gone comes behind what is new.
func TestFullListThatWakes(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(-1, nil)
		for key := range itemID(2048) {
			require.NoError(t, s.bag.Set(key, item{Count: 1}))
		}
		net.Advance(5 * time.Second)
		require.NoError(t, s.actor.SetDormant(true))
		net.Advance(time.Second)
		require.True(t, c.at(0, s).actor.Dormant())
		for key := range itemID(1024) {
			s.bag.Delete(key + 1024)
			require.NoError(t, s.bag.Set(key+5000, item{Count: 2}))
		}
		require.NoError(t, s.actor.SetDormant(false))
		net.Advance(5 * time.Second)
		require.NoError(t, c.clients[0].conn.Err())
		c.requireSame()
	})
}

// What attackers found: a client that sets a new key in its own copy, as Set
// allows, is kicked when the server gives the next item the same number.
func TestClientPredictsAnItem(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		s := c.spawn(-1, nil)
		require.NoError(t, s.bag.Set(1, item{Count: 1}))
		net.Advance(time.Second)
		require.NoError(t, c.at(0, s).bag.Set(100, item{Count: 100})) // predicted
		require.NoError(t, s.bag.Set(2, item{Count: 2}))
		net.Advance(time.Second)
		require.NoError(t, c.clients[0].conn.Err())
		got, ok := c.at(0, s).bag.Get(2)
		require.True(t, ok)
		require.Equal(t, 2, got.Count)
	})
}

// What attackers found: TearOff of an actor whose lists take more than the
// reliable buffer kicks all of its clients.
func TestTearOffOfALongList(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		var b *rpc.Binding[*hoarder]
		_, _, _, from := pairOf(t, net, func(w *rpc.World) { b = bindHoard(w) }, func(w *rpc.World) { bindHoard(w) }, rpc.Config{})
		a, h, err := rpc.Spawn(b, nil, nil, rpc.AlwaysRelevant())
		require.NoError(t, err)
		for i := range uint16(1500) {
			require.NoError(t, h.items.Set(i, hoarded{strings.Repeat("x", 250)}))
		}
		net.Advance(10 * time.Second)
		require.NoError(t, from.Err())
		require.NoError(t, a.TearOff())
		net.Advance(5 * time.Second)
		require.NoError(t, from.Err())
	})
}

var (
	hoard      = rpc.NewClass("AttackHoard")
	hoardItems = rpc.NewList[uint16, hoarded](hoard, "Items")
	bare       = rpc.NewClass("AttackBare")
	_          = rpc.NewList[uint16, hoarded](bare, "Items")
	barePing   = rpc.Multicast[int](bare, "Ping", rpc.Reliable)
)

type hoarded struct {
	Text string `quiver:"max=300"`
}

type hoarder struct {
	items rpc.List[uint16, hoarded]
}

func bindHoard(w *rpc.World) *rpc.Binding[*hoarder] {
	b := rpc.Bind(w, hoard, func(*rpc.Actor) *hoarder { return new(hoarder) })
	rpc.ReplicateList(b, hoardItems, func(h *hoarder) *rpc.List[uint16, hoarded] { return &h.items })
	return b
}

// pairOf is a server and a client of worlds that bind has prepared.
func pairOf(t *testing.T, net *rpctest.Network, server, client func(*rpc.World), config rpc.Config) (here *rpc.World, there *rpc.World, at *rpc.Conn, from *rpc.Conn) {
	t.Helper()
	config.OnConnect = func(_ *rpc.World, c *rpc.Conn) { at = c }
	here, err := rpc.NewWorld(config)
	require.NoError(t, err)
	config.OnConnect = nil
	there, err = rpc.NewWorld(config)
	require.NoError(t, err)
	server(here)
	client(there)
	net.Server(here)
	from = net.Client(there)
	return here, there, at, from
}

// What attackers found: TearOff of an actor whose list the server has not bound (a
// component's, say) sends empty messages until the buffer is full, and kicks all clients.
func TestTearOffOfAnUnboundList(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		bind := func(w *rpc.World) {
			b := rpc.Bind(w, bare, func(*rpc.Actor) *hoarder { return new(hoarder) })
			rpc.On(b, barePing, func(*hoarder, *rpc.Call, int) {})
		}
		here, _, _, from := pairOf(t, net, bind, bind, rpc.Config{})
		a, err := here.Spawn(bare, nil, rpc.AlwaysRelevant())
		require.NoError(t, err)
		net.Advance(time.Second)
		require.NoError(t, a.TearOff())
		net.Advance(time.Second)
		require.NoError(t, from.Err())
	})
}
