package rpctest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// What attackers found: what a client dropped of a list for want of memory, and
// asks for anew, it never gets of an actor that fell asleep meanwhile.
func TestSleepsWithAListThatWasDropped(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		c := newCamp(t, net, 1, rpc.Config{})
		sleeper := c.spawn(-1, nil)
		require.NoError(t, sleeper.bag.Set(1, item{Count: 1}))
		var noise []*trooper
		for range 200 {
			noise = append(noise, c.spawn(-1, nil))
		}
		net.Advance(time.Second)
		net.Pause(c.clients[0].World, 5*time.Second)
		for i := range 120 {
			for _, s := range noise {
				s.pose.Health, s.pose.Name = uint16(i), fmt.Sprint(i, "-------")
			}
			net.Advance(time.Second / 30)
		}
		require.NoError(t, sleeper.bag.Set(2, item{Count: 2}))
		net.Advance(time.Second / 3)
		require.NoError(t, sleeper.actor.SetDormant(true))
		net.Advance(20 * time.Second)
		require.NotZero(t, c.clients[0].conn.Stats().Drops.State)
		copied := c.at(0, sleeper)
		require.True(t, copied.actor.Dormant())
		require.Equal(t, bagOf(sleeper), bagOf(copied))
	})
}

var (
	early      = rpc.NewClass("AttackEarly")
	earlyState = rpc.NewState[earlyBody](early)
	earlyHello = rpc.Client[int](early, "Hello", rpc.Reliable)
)

type earlyBody struct {
	Team  uint8 `quiver:"initial"`
	Count uint8
}

type earlyObject struct{ body earlyBody }

// What attackers found: fields that go with the open only never reach a client
// for which the constructor itself opened the actor, by a call.
func TestInitialFieldsOfAConstructorThatCalls(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		var made *earlyObject
		var b *rpc.Binding[*earlyObject]
		bind := func(w *rpc.World) *rpc.Binding[*earlyObject] {
			b := rpc.Bind(w, early, func(a *rpc.Actor) *earlyObject {
				o := new(earlyObject)
				if w.IsServer() {
					o.body = earlyBody{Team: 3, Count: 4}
					require.NoError(t, earlyHello.Call(a, 1))
				} else {
					made = o
				}
				return o
			})
			rpc.On(b, earlyHello, func(*earlyObject, *rpc.Call, int) {})
			rpc.Replicate(b, earlyState, func(o *earlyObject) *earlyBody { return &o.body })
			return b
		}
		_, _, at, _ := pairOf(t, net, func(w *rpc.World) { b = bind(w) }, func(w *rpc.World) { bind(w) }, rpc.Config{})
		_, _, err := rpc.Spawn(b, at, nil)
		require.NoError(t, err)
		net.Advance(time.Second)
		require.EqualValues(t, 4, made.body.Count)
		require.EqualValues(t, 3, made.body.Team)
	})
}

var (
	roll      = rpc.NewClass("AttackRoll")
	rollNames = rpc.NewList[rollKey, int](roll, "Names")
)

type rollKey struct {
	Name string `quiver:"max=4"`
}

type rollObject struct{ names rpc.List[rollKey, int] }

// What attackers found: an item whose key cannot be encoded goes to clients
// under the zero key, and takes the place of the item that has it.
func TestKeysThatCanNotBeEncoded(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		var made *rollObject
		var b *rpc.Binding[*rollObject]
		bind := func(w *rpc.World) *rpc.Binding[*rollObject] {
			b := rpc.Bind(w, roll, func(*rpc.Actor) *rollObject {
				made = new(rollObject)
				return made
			})
			rpc.ReplicateList(b, rollNames, func(o *rollObject) *rpc.List[rollKey, int] { return &o.names })
			return b
		}
		pairOf(t, net, func(w *rpc.World) { b = bind(w) }, func(w *rpc.World) { bind(w) }, rpc.Config{})
		_, o, err := rpc.Spawn(b, nil, nil, rpc.AlwaysRelevant())
		require.NoError(t, err)
		require.NoError(t, o.names.Set(rollKey{}, 7))
		net.Advance(time.Second)
		require.NoError(t, o.names.Set(rollKey{"too long"}, 8))
		net.Advance(time.Second)
		got, ok := made.names.Get(rollKey{})
		require.True(t, ok)
		require.Equal(t, 7, got)
	})
}

// Slices: OnRep hears the old elements.
func TestOnRepOfSlicesHasTheOld(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		var heard []string
		var b *rpc.Binding[*slicedObject]
		bind := func(w *rpc.World) *rpc.Binding[*slicedObject] {
			b := rpc.Bind(w, sliced, func(*rpc.Actor) *slicedObject { return new(slicedObject) })
			rpc.Replicate(b, slicedState, func(o *slicedObject) *slicedBody { return &o.body })
			rpc.OnRep(b, slicedState, func(o *slicedObject, old slicedBody) { heard = append(heard, fmt.Sprint(old.N, o.body.N)) })
			return b
		}
		pairOf(t, net, func(w *rpc.World) { b = bind(w) }, func(w *rpc.World) { bind(w) }, rpc.Config{})
		_, o, err := rpc.Spawn(b, nil, func(o *slicedObject) { o.body.N = []uint8{1, 2, 3} }, rpc.AlwaysRelevant())
		require.NoError(t, err)
		net.Advance(time.Second)
		o.body.N[1] = 9
		net.Advance(time.Second)
		require.Equal(t, []string{"[] [1 2 3]", "[1 2 3] [1 9 3]"}, heard)
	})
}

var (
	sliced      = rpc.NewClass("AttackSliced")
	slicedState = rpc.NewState[slicedBody](sliced)
)

type slicedBody struct {
	N []uint8 `quiver:"max=5"`
}
type slicedObject struct{ body slicedBody }
