package rpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/state"
)

// TestClockThatGoesBack: a game's clock that a new match resets does not stop replication.
func TestClockThatGoesBack(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.named(0, "one")
		n.tick(10)
		game := time.Now().Add(time.Hour)
		step := func(times int) {
			for range times {
				game = game.Add(time.Second / 30)
				n.server.Dispatch(game)
				n.server.Flush(game)
				n.clients[0].Tick(time.Now())
				time.Sleep(time.Second / 30)
			}
		}
		step(10)
		*a.text() = "two"
		step(30)
		require.Equal(t, "two", *n.mirror(0, a).text())
		game = game.Add(-30 * time.Minute)
		*a.text() = "three"
		step(300)
		if got := *n.mirror(0, a).text(); got != "three" {
			t.Errorf("10 s later the client still has %q", got)
		}
	})
}

// TestOldValueOfAReferrer: OnRep ends an actor that another state of the same
// packet names. OnRep of that state still gets its old value.
func TestOldValueOfAReferrer(t *testing.T) {
	w, err := NewWorld(Config{})
	require.NoError(t, err)
	var torn *Actor
	var olds []int
	b := Bind(w, spy, func(*Actor) *spyObject { return new(spyObject) })
	Replicate(b, spyState, func(o *spyObject) *spyBody { return &o.body })
	OnRep(b, spyState, func(o *spyObject, old spyBody) {
		if o.body.N == 1 && torn.Alive() {
			require.NoError(t, w.Destroy(torn))
		}
		if o.body.N == 12 {
			olds = append(olds, old.N)
		}
	})
	w.lobby.client.Store(true)
	c := newClientConn(w, nil)
	copyOf := func(ref Ref) *Actor {
		a := &Actor{world: w, class: spy, own: part{binding: w.bindings[spy]}, ref: ref, conn: c, states: actorStates{newest: make([]uint64, spy.fields)}}
		c.copies.byRef[ref] = a
		a.makeObjects()
		a.makeReplicas()
		return a
	}
	first, second := copyOf(2), copyOf(3)
	torn = copyOf(4)
	torn.tornOff = true
	update := func(a *Actor, n, chief int, packet uint64) {
		b := state.AppendMask(nil, 3, spy.fields)
		b = append(b, byte(2*n), byte(chief))
		require.Nil(t, w.applyUpdate(c, a, updateOf(b, packet)))
	}
	update(second, 11, 4, 1)
	w.callRepNotifies(c)
	update(first, 1, 0, 2)
	update(second, 12, 4, 2)
	w.callRepNotifies(c)
	require.Contains(t, olds, 11, "N went from 11 to 12, and OnRep heard it was %v", olds)
}

// Constructors and set functions that spawn and destroy.
func TestSpawnsWithinSpawns(t *testing.T) {
	spyPair(t, func(server, client *World, at, from *Conn, tick func(int)) {
		b := spiesOf(server)
		a, _, err := Spawn(b, at, func(o *spyObject) {
			for actor, other := range b.All() {
				if other == o {
					_, _, err := Spawn(b, actor, func(child *spyObject) { child.body.Chief = actor.Ref() })
					require.NoError(t, err)
					require.NoError(t, server.Destroy(actor))
				}
			}
		})
		require.ErrorIs(t, err, ErrClosed)
		require.Nil(t, a)
		tick(10)
		require.NoError(t, from.Err())
		for a := range client.Actors() {
			require.NotZero(t, a.ref)
		}
	})
}
