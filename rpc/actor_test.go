package rpc

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
)

func TestOwnershipIsTold(t *testing.T) {
	inNet(t, 2, Config{}, func(n *network) {
		a := n.spawn(0)
		require.NoError(t, a.OpenTo(n.conns[0]), "it stays open there, whoever owns it")
		require.NoError(t, a.OpenTo(n.conns[1]))
		n.tick(3)
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

// TestLastOwnerKeepsNothing checks that an actor, dormant or not, closes for
// its previous owner if it was open there only because of that ownership.
// Before, the previous owner kept its copies and got all changes.
func TestLastOwnerKeepsNothing(t *testing.T) {
	inNet(t, 2, Config{}, func(n *network) {
		pawn, bag, asleep, shown := n.spawn(0), n.spawn(0), n.spawn(0), n.spawn(0, AlwaysRelevant())
		tool := n.spawn(0, RelevantAsOwner()) // nobody else sees it, for its owner stands nowhere
		for _, a := range []*Actor{bag, asleep, shown, tool} {
			require.NoError(t, n.server.SetOwner(a, pawn))
		}
		copies := []*Actor{n.mirror(0, pawn), n.mirror(0, bag), n.mirror(0, asleep), n.mirror(0, tool), n.mirror(0, shown)}
		require.NoError(t, asleep.SetDormant(true))
		n.tick(3)
		n.clients[0].take()
		require.NoError(t, n.server.SetOwner(pawn, n.conns[1]))
		n.tick(3)
		require.Equal(t, slices.Repeat([]string{"close Relevancy"}, 4), n.clients[0].take())
		for i, a := range copies {
			require.Equal(t, i < 4, a.dead, "copy %d", i)
		}
		for _, a := range []*Actor{pawn, bag, tool, shown} {
			require.True(t, n.mirror(1, a).Owned())
		}
	})
}

// TestOwnersThatTakeTurns gives an actor to another owner at each tick for 40
// s, over a round trip of 200 ms. Each owner gets all calls that are made while
// it is the owner, and none of the others' turns. Before, every turn opened the
// actor again after the previous close, and the last calls arrived 80 s late.
func TestOwnersThatTakeTurns(t *testing.T) {
	inNet(t, 2, Config{}, func(n *network) {
		for i := range 2 {
			n.pipes[i][0].SetDelay(100 * time.Millisecond)
			n.pipes[i][1].SetDelay(100 * time.Millisecond)
		}
		n.tick(30)
		a := n.spawn(0)
		n.tick(10)
		var told, heard [2][]string
		listen := func() {
			for i, w := range n.clients {
				for _, what := range w.take() {
					switch {
					case strings.HasPrefix(what, "tell"):
						heard[i] = append(heard[i], what)
					case strings.HasPrefix(what, "label"), strings.HasPrefix(what, "open"):
						require.NotContains(t, what, fmt.Sprint("for ", 1-i))
					}
				}
			}
		}
		for turn := range 1201 {
			i := (turn + 1) % 2
			*a.text() = fmt.Sprint("for ", i, " at ", turn)
			require.NoError(t, n.server.SetOwner(a, n.conns[i]))
			require.NoError(t, tell.Call(a, fmt.Sprint(turn)))
			told[i] = append(told[i], fmt.Sprint("tell ", turn))
			n.tick(1)
			listen()
		}
		n.tick(18)
		listen()
		require.Equal(t, told, heard)
		require.Equal(t, *a.text(), n.clients[1].binding.first().label.Text)
		require.True(t, n.mirror(1, a).Owned())
		require.Nil(t, a.openingOn(n.conns[0]))
		require.Nil(t, n.clients[0].binding.first())
		require.Empty(t, n.server.toClose)
	})
}

// TestLastOwnerBeforeItsOpen: what happens to an actor that will close for its
// previous owner as soon as that has acknowledged the open.
func TestLastOwnerBeforeItsOpen(t *testing.T) {
	for name, test := range map[string]struct {
		do    func(n *network, a *Actor)
		keeps bool // the last owner's copy stays
	}{
		"nothing":                   {func(*network, *Actor) {}, false},
		"OpenTo":                    {func(n *network, a *Actor) { require.NoError(n.t, a.OpenTo(n.conns[0])) }, true},
		"CloseTo":                   {func(n *network, a *Actor) { a.CloseTo(n.conns[0]) }, false},
		"TearOff":                   {func(n *network, a *Actor) { require.NoError(n.t, a.TearOff()) }, false},
		"SetDormant":                {func(n *network, a *Actor) { require.NoError(n.t, a.SetDormant(true)) }, false},
		"multicast":                 {func(n *network, a *Actor) { require.NoError(n.t, blast.Call(a, 1)) }, false},
		"Destroy":                   {func(n *network, a *Actor) { require.NoError(n.t, n.server.Destroy(a)) }, false},
		"the end of its connection": {func(n *network, a *Actor) { n.conns[0].Close(0, "") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inNet(t, 2, Config{}, func(n *network) {
				acked := 0
				OnOpenAcked(n.server.binding, func(_ *puppet, c *Conn) {
					if c == n.conns[0] {
						acked++
					}
				})
				a := n.named(0, "his")
				require.NoError(t, n.server.SetOwner(a, n.conns[1]))
				*a.text() = "hers"
				test.do(n, a)
				n.tick(10)
				heard := n.clients[0].take()
				if !test.keeps {
					require.NotContains(t, heard, "explode")
					require.NotContains(t, heard, "label hers")
				}
				p := n.clients[0].binding.first()
				require.Equal(t, test.keeps, p != nil && p.actor.Alive(), "%v", heard)
				require.Equal(t, test.keeps, acked == 1)
				if n.conns[0].usable() {
					require.Empty(t, n.conns[0].shown.unacked)
				}
				require.Empty(t, n.server.toClose)
			})
		})
	}
}

// TestOpenAckedBeforeCalls: OnOpenAcked runs before the first call that the client
// makes on the actor, even if both arrive while OnOpenAcked runs for another actor.
func TestOpenAckedBeforeCalls(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		client := n.clients[0]
		client.onConstruct = func(a *Actor) { require.NoError(t, fire.Call(a, shot{})) }
		n.pipes[0][1].SetDelay(100 * time.Millisecond)
		var heard []string
		OnOpenAcked(n.server.binding, func(p *puppet, _ *Conn) {
			heard = append(heard, "acked "+p.actor.String())
			for range 10 { // it takes its time
				client.Tick(time.Now())
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
			}
		})
		n.server.onFire = func(call *Call, _ shot) { heard = append(heard, "fire "+call.Actor.String()) }
		var want []string
		for range 4 {
			a := n.named(0, "")
			n.tick(1)
			want = append(want, "acked "+a.String(), "fire "+a.String())
		}
		n.tick(30)
		require.ElementsMatch(t, want, heard)
		for i := 0; i < len(want); i += 2 {
			require.Less(t, slices.Index(heard, want[i]), slices.Index(heard, want[i+1]), "%v", heard)
		}
	})
}

// TestOpenAckedEndsWithItsConnection: once the game has closed a connection, or
// a function has panicked for it, no more run for it.
func TestOpenAckedEndsWithItsConnection(t *testing.T) {
	for name, end := range map[string]func(c *Conn){"Close": func(c *Conn) { c.Close(0, "") }, "a panic": func(*Conn) { panic("in OnOpenAcked") }} {
		t.Run(name, func(t *testing.T) {
			inNet(t, 2, Config{OnPanic: func(*Conn, string, any, []byte) {}}, func(n *network) {
				var acked [2]int
				OnOpenAcked(n.server.binding, func(_ *puppet, c *Conn) {
					if acked[slices.Index(n.conns, c)]++; c == n.conns[0] {
						end(c)
					}
				})
				n.named(-1, "", AlwaysRelevant())
				n.named(-1, "", AlwaysRelevant())
				n.tick(10)
				require.Equal(t, [2]int{1, 2}, acked)
			})
		})
	}
}

// TestOwnerOfPartOfATick: within each tick, an actor goes to a client and then to another, while
// neither has acknowledged the open. It waits for the acknowledgement once, not once a tick.
func TestOwnerOfPartOfATick(t *testing.T) {
	inNet(t, 2, Config{}, func(n *network) {
		for i := range 2 {
			n.pipes[i][0].SetDelay(time.Second)
			n.pipes[i][1].SetDelay(time.Second)
		}
		a := n.spawn(-1)
		for range 30 {
			require.NoError(t, n.server.SetOwner(a, n.conns[0]))
			require.NoError(t, n.server.SetOwner(a, n.conns[1]))
			n.tick(1)
			require.Len(t, n.server.toClose, 1)
		}
		n.tick(200)
		require.Empty(t, n.server.toClose)
		require.Nil(t, a.openingOn(n.conns[0]))
		require.True(t, n.mirror(1, a).Owned())
	})
}

// placeDoors places an actor at the server and at both clients, and returns them in this order.
func (n *network) placeDoors() (doors []*Actor) {
	for _, w := range append([]*testWorld{n.server}, n.clients...) {
		door, _, err := Place(w.binding, "door", nil)
		require.NoError(n.t, err)
		doors = append(doors, door)
	}
	return doors
}

// TestTearOffBeforeTheLastOwnersOpen: a placed copy of the previous owner is
// torn off whether or not its client has acknowledged the open. Before, a copy
// whose client had not stayed a copy forever.
func TestTearOffBeforeTheLastOwnersOpen(t *testing.T) {
	for _, ticks := range []int{0, 5} {
		inNet(t, 2, Config{}, func(n *network) {
			doors := n.placeDoors()
			require.NoError(t, n.server.SetOwner(doors[0], n.conns[0]))
			n.tick(ticks)
			require.NoError(t, n.server.SetOwner(doors[0], n.conns[1]))
			require.NoError(t, doors[0].TearOff())
			n.tick(10)
			for _, door := range doors {
				require.True(t, door.TornOff() && door.Alive(), "after %d ticks", ticks)
			}
			require.Empty(t, doors[0].dormancy.detachedAt)
		})
	}
}

// first returns an object of a binding, nil when there is none.
func (b *Binding[T]) first() (object T) {
	for _, object = range b.All() {
		break
	}
	return object
}

// TestLastOwnersPlacedCopy: the previous owner's placed copy stays without a
// channel, and its client knows that it is no longer the owner.
func TestLastOwnersPlacedCopy(t *testing.T) {
	inNet(t, 2, Config{}, func(n *network) {
		doors := n.placeDoors()
		for i := range 4 {
			require.NoError(t, n.server.SetOwner(doors[0], n.conns[i%2]))
			require.NoError(t, doors[0].SetDormant(i == 2))
			n.tick(5)
			require.True(t, doors[1+i%2].Owned())
			require.False(t, doors[2-i%2].Owned())
		}
		require.False(t, doors[1].dead)
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
		require.Empty(t, n.conns[0].channels.byNumber)
		require.Empty(t, n.ends[0].channels.byNumber)
		require.Nil(t, n.conns[0].shown.owned.First())
		require.Zero(t, n.server.actors.alive.Load())

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
		a := n.named(0, "well")
		n.tick(3)
		n.clients[0].take()
		mirror, kept := n.mirror(0, a), a.Channel(n.conns[0])
		require.True(t, kept.Open())
		a.CloseTo(n.conns[0])
		a.CloseTo(n.conns[0])
		n.tick(3)
		require.Equal(t, []string{"close Relevancy"}, n.clients[0].take())
		require.False(t, mirror.Alive())
		require.True(t, a.Alive())
		require.False(t, a.Channel(n.conns[0]).Open())
		require.False(t, kept.Open(), "nor is the one that somebody kept")

		*a.text() = "wounded"
		require.NoError(t, hit.Call(a, 1), "opens it again")
		n.tick(3)
		require.Equal(t, []string{"open wounded", "hit"}, n.clients[0].take(), "the state is that of the open")
	})
}

func TestAlwaysRelevantOpensForLateJoiners(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		n.named(-1, "one", AlwaysRelevant())
		n.named(-1, "two", AlwaysRelevant())
		n.named(-1, "hidden")
		late := n.join(Config{})
		n.tick(3)
		require.Equal(t, []string{"open one", "open two"}, late.take())
	})
}

// TestOneConnectionDoesNotFailASpawn: an AlwaysRelevant actor opens for all
// connections that can have it. If one has no free channel, or a smaller
// message limit, the log says so, once a second, and Spawn returns no error.
func TestOneConnectionDoesNotFailASpawn(t *testing.T) {
	for name, bounded := range map[string]bunch.Config{"the limit is 4 (MaxChannels)": {MaxChannels: 4}, "the limit is 150 (Config.Bunch.MaxBunch)": {MaxBunch: 150}} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			inNet(t, 1, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(n *network) {
				poor := n.join(Config{Bunch: bounded})
				for range 5 {
					require.True(t, n.named(-1, strings.Repeat("x", 160), AlwaysRelevant()).Alive())
				}
				n.tick(3)
				late := n.join(Config{Bunch: bounded})
				require.Len(t, n.clients[0].take(), 5)
				require.Less(t, len(poor.take()), 5)
				require.Less(t, len(late.take()), 5)
				require.Contains(t, log.String(), name)
				require.Equal(t, 2, strings.Count(log.String(), "actor not opened"))
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
	inNet(t, 1, Config{Bunch: bunch.Config{MaxBunch: 150}}, func(n *network) {
		_, err := n.server.Spawn(NewClass("Stranger"), nil)
		require.ErrorContains(t, err, `Spawn of a "Stranger": class is neither bound nor in Config.Classes`)
		_, err = n.server.Spawn(hero, nil, AlwaysRelevant(), OnlyRelevantToOwner())
		require.ErrorContains(t, err, `Spawn of a "Hero": AlwaysRelevant and OnlyRelevantToOwner cannot be combined`)
		long := func(p *puppet) { p.label.Text = strings.Repeat("x", 160) }
		_, _, err = Spawn(n.server.binding, n.conns[0], long)
		require.ErrorIs(t, err, bunch.ErrBunchTooLarge)
		require.Nil(t, n.conns[0].shown.owned.First())
		require.Empty(t, n.conns[0].channels.byNumber)
		_, _, err = Spawn(n.server.binding, nil, long, AlwaysRelevant())
		require.ErrorIs(t, err, bunch.ErrBunchTooLarge, "which nobody could take")
		require.Zero(t, n.server.actors.alive.Load())
	})
}
