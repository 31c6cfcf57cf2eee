package rpc

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/testkit"
)

func TestOwnershipIsTold(t *testing.T) {
	inNet(t, 2, Config{}, func(n *network) {
		a := n.spawn(0)
		first := n.mirror(0, a)
		require.True(t, first.Owned())
		require.Same(t, n.conns[0], a.Conn())
		require.Same(t, n.ends[0], first.Conn())

		require.NoError(t, n.server.SetOwner(a, n.conns[1]))
		n.tick(3)
		require.False(t, first.Owned())
		require.ErrorIs(t, fire.Call(first, shot{}), ErrNotOwner)
		second := n.mirror(1, a)
		require.True(t, second.Owned())
		require.NoError(t, fire.Call(second, shot{}))
		n.tick(3)
		require.Equal(t, []string{"fire"}, n.server.take())

		require.NoError(t, n.server.SetOwner(a, nil))
		n.tick(3)
		require.False(t, second.Owned())
		require.Nil(t, a.Conn())
		require.NoError(t, n.server.SetOwner(a, n.conns[0]), "open there already")
		n.tick(3)
		require.True(t, first.Owned())
	})
}

func TestDestroy(t *testing.T) {
	inNet(t, 2, Config{}, func(n *network) {
		a := n.spawn(0, AlwaysRelevant())
		require.NoError(t, hit.Call(a, 1))
		require.NoError(t, n.server.Destroy(a))
		require.NoError(t, n.server.Destroy(a), "again is nothing")
		n.tick(3)
		require.Equal(t, []string{"hit", "close Destroyed"}, n.clients[0].take(), "what was sent before arrives")
		require.Equal(t, []string{"close Destroyed"}, n.clients[1].take())
		require.Empty(t, n.conns[0].channels)
		require.Empty(t, n.ends[0].channels)
		require.Empty(t, n.conns[0].owned)
		require.Zero(t, n.server.actors.Load())

		late := n.join(Config{})
		require.Empty(t, late.take(), "destroyed actors open for nobody")
	})
}

func TestCallThatCrossesTheCloseIsDropped(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.spawn(0)
		mirror := n.mirror(0, a)
		require.NoError(t, fire.Call(mirror, shot{}))
		require.NoError(t, n.server.Destroy(a))
		n.tick(4)
		require.Equal(t, []string{"close Destroyed"}, n.server.take())
		require.EqualValues(t, 1, n.conns[0].Stats().Drops.ActorClosed)
		require.NoError(t, n.conns[0].Err())
	})
}

func TestCloseToAndBack(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		state := "well"
		a := n.spawn(0, State(&state))
		mirror := n.mirror(0, a)
		a.CloseTo(n.conns[0])
		a.CloseTo(n.conns[0])
		n.tick(3)
		require.Equal(t, []string{"close Relevancy"}, n.clients[0].take())
		require.False(t, mirror.Alive())
		require.True(t, a.Alive())
		require.False(t, a.Channel(n.conns[0]).Open())

		state = "wounded"
		require.NoError(t, hit.Call(a, 1), "opens it again")
		n.tick(3)
		require.Equal(t, []string{"open wounded", "hit"}, n.clients[0].take(), "the state is that of the open")
	})
}

// TestStateIsNotKept: a client's constructors read the states of 200 actors, 12 MB. What a server can make a client hold
// would else be a state of 64 KiB for each of 32,767 channels, all beyond ReceiveLimit, for a message is charged until it is
// taken only.
func TestStateIsNotKept(t *testing.T) {
	const actors, size = 200, 60_000
	inNet(t, 1, Config{}, func(n *network) {
		client, read := n.clients[0], 0
		client.binding.untyped.construct = func(a *Actor) any {
			var state []byte
			var wrong []string
			require.Error(t, a.State(&wrong))
			require.NoError(t, a.State(&state))
			read += len(state)
			return &puppet{world: client, actor: a}
		}
		base, state := testkit.Heap(), make([]byte, size)
		var a *Actor
		for range actors {
			var err error
			a, err = n.server.Spawn(hero, n.conns[0], State(state))
			require.NoError(t, err)
			n.tick(1)
		}
		n.tick(90)
		require.Equal(t, actors*size, read)
		rise := testkit.Heap() - base
		t.Logf("%d KiB more at both ends", rise>>10)
		require.Less(t, rise, n.clients[0].config.receiveLimit(), "of which a server keeps room for a state's entries, 6 KiB an actor")
		require.ErrorContains(t, n.mirror(0, a).State(&state), "constructor")
	})
}

func TestAlwaysRelevantOpensForLateJoiners(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		n.spawn(-1, AlwaysRelevant(), State("one"))
		n.spawn(-1, AlwaysRelevant(), State("two"))
		n.spawn(-1, State("hidden"))
		late := n.join(Config{})
		n.tick(3)
		require.Equal(t, []string{"open one", "open two"}, late.take())
	})
}

// TestOneConnectionDoesNotFailASpawn: an actor for everybody opens for all those who can take it. That one has no channel left, or
// allows smaller messages, is told in the log, once a second, and is no error of the game's.
func TestOneConnectionDoesNotFailASpawn(t *testing.T) {
	for name, bounded := range map[string]bunch.Config{"no channel left": {MaxChannels: 4}, "the limit is Config.Bunch.MaxBunch, 100": {MaxBunch: 100}} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			inNet(t, 1, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(n *network) {
				poor := n.join(Config{Bunch: bounded})
				for range 5 {
					a, err := n.server.Spawn(hero, nil, AlwaysRelevant(), State(strings.Repeat("x", 100)))
					require.NoError(t, err)
					require.True(t, a.Alive())
				}
				n.tick(3)
				late := n.join(Config{Bunch: bounded})
				require.Len(t, n.clients[0].take(), 5)
				require.Less(t, len(poor.take()), 5)
				require.Less(t, len(late.take()), 5)
				require.Contains(t, log.String(), name)
				require.Equal(t, 2, strings.Count(log.String(), "actor not opened"))

				_, err := n.server.Spawn(hero, nil, AlwaysRelevant(), State(make(Raw, 70000)))
				require.ErrorIs(t, err, bunch.ErrBunchTooLarge, "which nobody could take")
			})
		})
	}
}

func TestActorsGoWithTheirOwnerUnlessKept(t *testing.T) {
	inNet(t, 2, Config{}, func(n *network) {
		goes, stays := n.spawn(0, AlwaysRelevant()), n.spawn(0, AlwaysRelevant())
		n.server.OnDisconnect(func(c *Conn, err error) {
			require.NoError(t, n.server.SetOwner(stays, nil))
		})
		n.ends[0].Close(1024, "tired")
		n.tick(4)
		require.False(t, goes.Alive())
		require.True(t, stays.Alive())
		require.Nil(t, stays.Conn())
		require.Equal(t, []string{"close Destroyed"}, n.clients[1].take())
		require.Contains(t, n.clients[0].take(), "close Disconnected")
		require.EqualError(t, n.server.left[0], "rpc: connection closed by the peer: Code(1024): tired")
		require.Len(t, n.server.Conns(), 1)
		require.NoError(t, n.server.SetOwner(stays, n.conns[1]))
		require.ErrorIs(t, n.server.SetOwner(stays, n.conns[0]), ErrClosed)
	})
}

func TestChannelOfAnActor(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.spawn(0)
		ch := a.Channel(n.conns[0])
		out, slots := ch.Reliable()
		require.Equal(t, 0, out)
		require.Equal(t, 256, slots)
		require.NoError(t, bulk.Call(a, make(Raw, 32<<10)))
		out, _ = ch.Reliable()
		require.Equal(t, bunch.Entries(32<<10), out)
		stats := n.conns[0].Stats()
		require.Len(t, stats.Channels, 1)
		stats.Channels[0].QueueTime = 0 // falls as the link sends, between two looks
		require.Equal(t, []ChannelStats{{Channel: ch.number, Class: "Hero", Out: out, Slots: slots}}, stats.Channels)
		n.tick(10)
		out, _ = ch.Reliable()
		require.Zero(t, out)

		mirror := n.mirror(0, a)
		require.True(t, mirror.Channel(n.ends[0]).Open())
		var none Channel
		out, slots = none.Reliable()
		require.Zero(t, out+slots)
		require.Zero(t, none.QueueTime())
		none.Watch(1, 0)
	})
}

func TestSpawnThatCanNotBe(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		_, err := n.server.Spawn(NewClass("Stranger"), nil)
		require.ErrorContains(t, err, `Spawn of a "Stranger": the class is neither bound nor in Config.Classes`)
		_, err = n.server.Spawn(hero, n.conns[0], State(make(Raw, 70000)))
		require.ErrorIs(t, err, bunch.ErrBunchTooLarge)
		require.Empty(t, n.conns[0].owned)
		require.Empty(t, n.conns[0].channels)
		_, err = n.server.Spawn(hero, n.conns[0], State(make(chan int)))
		require.ErrorContains(t, err, `state of a "Hero"`)
	})
}
