package rpctest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// everywhere runs a test on a perfect network and on a bad one.
func everywhere(t *testing.T, fn func(t *testing.T, net *rpctest.Network)) {
	for name, weather := range map[string]emulation.Settings{"off": rpctest.Off, "bad": rpctest.Bad} {
		t.Run(name, func(t *testing.T) { rpctest.Run(t, weather, fn) })
	}
}

// settle is more than what is sent takes to arrive on a bad network, and the answer back.
const settle = 5 * time.Second

// refs returns the numbers of actors, in the order of a listing.
func refs(b *barracks) (refs []rpc.Ref) {
	for a := range b.binding.All() {
		refs = append(refs, a.Ref())
	}
	return refs
}

// Bindings list the objects that live here, and know them by actor and by
// number. UE: TActorIterator.
func TestBindingsKnowTheirObjects(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		var all []*trooper
		for i := range 10 {
			all = append(all, c.spawn(i%2, nil))
		}
		require.NoError(t, c.server.Destroy(all[3].actor))
		all = slices.Delete(all, 3, 4)
		net.Advance(settle)
		for _, b := range append(c.clients, c.server) {
			require.Len(t, refs(b), 9)
			for a, s := range b.binding.All() {
				of, ok := b.binding.Of(a)
				require.True(t, ok)
				require.Same(t, s, of)
				at, ok := b.binding.At(a.Ref())
				require.True(t, ok)
				require.Same(t, s, at)
				require.Same(t, a, s.actor)
			}
			listed := slices.Collect(b.Actors())
			require.Len(t, listed, 9)
			require.True(t, slices.IsSortedFunc(listed, func(a, b *rpc.Actor) int { return int(a.Ref()) - int(b.Ref()) }))
		}
		for i, a := range slices.Collect(c.server.Actors()) {
			require.Same(t, all[i].actor, a, "in the order of Spawn")
		}
		_, ok := c.server.binding.Of(c.at(0, all[0]).actor)
		require.False(t, ok, "of another world")
		_, ok = c.server.binding.Of(nil)
		require.False(t, ok)
		_, ok = c.server.binding.At(99)
		require.False(t, ok)
	})
}

// Actors come and go while somebody goes through them.
func TestListingsWhileActorsComeAndGo(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 0, rpc.Config{})
		for range 100 {
			c.spawn(-1, nil)
		}
		seen := 0
		for a := range c.server.binding.All() {
			require.True(t, a.Alive())
			seen++
			for next := a.Ref() + 1; next < a.Ref()+10; next++ { // of ten, one stays
				if other := c.server.Actor(next); other != nil && a.Ref()%10 == 1 {
					require.NoError(t, c.server.Destroy(other))
				}
			}
			c.spawn(-1, nil)
		}
		require.Equal(t, 10, seen)
		require.Len(t, refs(c.server), 20)
		require.True(t, slices.IsSorted(refs(c.server)))
		for a := range c.server.Actors() {
			require.NoError(t, c.server.Destroy(a))
		}
		require.Empty(t, refs(c.server))
		for range c.server.Actors() {
			t.Fatal("nobody is left")
		}
	})
}

// The server hears, once for each open, that a client has an actor, and the
// client has it a tick later at the latest.
func TestOnOpenAcked(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		type open struct {
			client int
			of     *trooper
		}
		heard, want := make(map[open]int), make(map[open]int)
		var now []open
		rpc.OnOpenAcked(c.server.binding, func(s *trooper, conn *rpc.Conn) {
			now = append(now, open{slices.Index(c.conns, conn), s})
			heard[now[len(now)-1]]++
		})
		expect := func() {
			t.Helper()
			for end := net.Elapsed() + settle; net.Elapsed() < end; {
				had := now
				now = nil
				net.Advance(time.Second / 30)
				for _, o := range had {
					require.NotNil(t, c.at(o.client, o.of))
				}
			}
			require.Equal(t, want, heard)
		}
		s, gone := c.spawn(0, nil), c.spawn(0, nil)
		require.NoError(t, c.server.Destroy(gone.actor))
		want[open{0, s}], want[open{1, s}] = 1, 1
		expect()

		t.Log("# an actor that opens again, and a late joiner")
		require.NoError(t, s.actor.SetDormant(true))
		expect()
		require.NoError(t, s.actor.SetDormant(false))
		want[open{0, s}], want[open{1, s}] = 2, 2
		expect()
		s.actor.CloseTo(c.conns[1])
		require.NoError(t, s.actor.OpenTo(c.conns[1]))
		want[open{1, s}] = 3
		expect()
		c.join()
		want[open{2, s}] = 1
		expect()
	})
}

// A component hears it as well, and what it does to the actor holds for those after it.
func TestOnOpenAckedOfAComponent(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		class := rpc.NewClass("Chest")
		lock := rpc.NewComponent(class, "Lock")
		server, err := rpc.NewWorld(rpc.Config{})
		require.NoError(t, err)
		chests := rpc.Bind(server, class, func(a *rpc.Actor) *rpc.Actor { return a })
		locks := rpc.Bind(server, lock, func(a *rpc.Actor) *rpc.Actor { return a })
		var heard []string
		rpc.OnOpenAcked(chests, func(a *rpc.Actor, c *rpc.Conn) {
			heard = append(heard, "chest")
			if len(heard) > 2 {
				require.NoError(t, server.Destroy(a))
			}
		})
		rpc.OnOpenAcked(locks, func(*rpc.Actor, *rpc.Conn) { heard = append(heard, "lock") })
		require.Panics(t, func() { rpc.OnOpenAcked(locks, func(*rpc.Actor, *rpc.Conn) {}) })
		require.Panics(t, func() { rpc.OnOpenAcked[*rpc.Actor](chests, nil) })
		net.Server(server)
		client, err := rpc.NewWorld(rpc.Config{Classes: []*rpc.Class{class}})
		require.NoError(t, err)
		net.Client(client)
		for range 2 {
			_, err := server.Spawn(class, nil, rpc.AlwaysRelevant())
			require.NoError(t, err)
			net.Advance(time.Second)
		}
		require.Equal(t, []string{"chest", "lock", "chest"}, heard)
	})
}

// UE: EndPlay runs once, with its reason.
func TestOnCloseRunsOnceWithItsReason(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 3, rpc.Config{})
		gone, hidden, stays := c.spawn(0, nil), c.spawn(-1, nil), c.spawn(1, nil)
		net.Advance(settle)
		first, second, third := c.at(0, gone), c.at(0, hidden), c.at(0, stays)
		require.NoError(t, c.server.Destroy(gone.actor))
		require.NoError(t, c.server.Destroy(gone.actor))
		hidden.actor.CloseTo(c.conns[0])
		net.Advance(settle)
		c.clients[0].conn.Close(0, "bye")
		net.Advance(settle)
		require.Equal(t, "end Destroyed", gone.heard[0])
		require.Len(t, gone.heard, 1)
		require.Empty(t, hidden.heard)
		require.Equal(t, []string{"end Destroyed"}, first.heard)
		require.Equal(t, []string{"end Relevancy"}, second.heard)
		require.Equal(t, []string{"end Disconnected"}, third.heard)
		require.Empty(t, refs(c.clients[0]))
		require.Len(t, refs(c.clients[1]), 2)
	})
}

// UE: PossessedBy on the server, OnRep_Owner on clients.
func TestOnOwnerRunsOnBothSides(t *testing.T) {
	everywhere(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 2, rpc.Config{})
		s := c.spawn(0, nil)
		net.Advance(settle)
		require.Empty(t, s.heard, "not for the first owner")
		require.NoError(t, c.server.SetOwner(s.actor, c.conns[1]))
		require.NoError(t, c.server.SetOwner(s.actor, c.conns[1]), "again is nothing")
		net.Advance(settle)
		require.Equal(t, []string{fmt.Sprint("owner ", c.conns[1])}, s.heard)
		require.Equal(t, []string{"owned false"}, c.at(0, s).heard)
		require.Equal(t, []string{"owned true"}, c.at(1, s).heard)
		require.NoError(t, c.server.SetOwner(s.actor, nil))
		net.Advance(settle)
		require.Len(t, s.heard, 2)
		require.Len(t, c.at(0, s).heard, 1)
		require.Equal(t, []string{"owned true", "owned false"}, c.at(1, s).heard)
	})
}
