package rpctest_test

import (
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// The classes of the tests of relevancy: scouts stand somewhere, ghosts decide
// themselves who sees them, medals do neither.
var (
	scoutClass = rpc.NewClass("Scout", rpc.CullDistance(100))
	scoutSpot  = rpc.NewState[spot](scoutClass)
	ghostClass = rpc.NewClass("Ghost")
	medalClass = rpc.NewClass("Medal")
)

type spot struct {
	X, Y, Z float32
	Count   uint32
}

// scout is an object of any of the three classes, on either side.
type scout struct {
	actor    *rpc.Actor
	spot     spot
	haunts   map[*rpc.Conn]bool // a ghost's
	asked    int
	broken   bool // its functions panic
	closed   []rpc.CloseReason
	closedAt time.Time
}

func (s *scout) at() (x, y, z float32) {
	if s.broken {
		panic("no position")
	}
	return s.spot.X, s.spot.Y, s.spot.Z
}

func (s *scout) seenBy(viewer *rpc.Conn) bool {
	s.asked++
	if s.broken {
		panic("no eyes")
	}
	return s.haunts[viewer]
}

func (s *scout) end(reason rpc.CloseReason) {
	s.closed, s.closedAt = append(s.closed, reason), time.Now()
}

// wilds is a world of scouts.
type wilds struct {
	*rpc.World
	scouts, ghosts, medals *rpc.Binding[*scout]
	all                    map[rpc.Ref]*scout // the newest object of each
	opened                 map[rpc.Ref]int    // how often
	conn                   *rpc.Conn          // of a client
}

func newWilds(t testing.TB, config rpc.Config) *wilds {
	t.Helper()
	world, err := rpc.NewWorld(config)
	require.NoError(t, err)
	w := &wilds{World: world, all: make(map[rpc.Ref]*scout), opened: make(map[rpc.Ref]int)}
	made := func(a *rpc.Actor) *scout {
		s := &scout{actor: a, haunts: make(map[*rpc.Conn]bool)}
		w.all[a.Ref()] = s
		w.opened[a.Ref()]++
		return s
	}
	w.scouts, w.ghosts, w.medals = rpc.Bind(world, scoutClass, made), rpc.Bind(world, ghostClass, made), rpc.Bind(world, medalClass, made)
	rpc.Replicate(w.scouts, scoutSpot, func(s *scout) *spot { return &s.spot })
	for _, b := range []*rpc.Binding[*scout]{w.scouts, w.ghosts, w.medals} {
		rpc.OnClose(b, (*scout).end)
	}
	rpc.At(w.scouts, (*scout).at)
	rpc.Relevant(w.ghosts, (*scout).seenBy)
	return w
}

// terrain is a server with scouts, and clients.
type terrain struct {
	t       testing.TB
	net     *rpctest.Network
	server  *wilds
	conns   []*rpc.Conn // the server's ends
	clients []*wilds
}

func newTerrain(t testing.TB, net *rpctest.Network, clients int, config rpc.Config) *terrain {
	t.Helper()
	r := &terrain{t: t, net: net}
	config.OnConnect = func(_ *rpc.World, conn *rpc.Conn) { r.conns = append(r.conns, conn) }
	r.server = newWilds(t, config)
	net.Server(r.server.World)
	for range clients {
		r.join()
	}
	return r
}

func (r *terrain) join() int {
	w := newWilds(r.t, rpc.Config{})
	w.conn = r.net.Client(w.World)
	r.clients = append(r.clients, w)
	return len(r.clients) - 1
}

// spawn makes an object of a binding at (x, 0, 0), owned by a client, or by nobody at -1.
func (r *terrain) spawn(b *rpc.Binding[*scout], owner int, x float32, options ...rpc.SpawnOption) *scout {
	r.t.Helper()
	var conn *rpc.Conn
	if owner >= 0 {
		conn = r.conns[owner]
	}
	_, s, err := rpc.Spawn(b, conn, func(s *scout) { s.spot.X = x }, options...)
	require.NoError(r.t, err)
	return s
}

func (r *terrain) scout(owner int, x float32, options ...rpc.SpawnOption) *scout {
	r.t.Helper()
	return r.spawn(r.server.scouts, owner, x, options...)
}

// has reports whether a client has a live copy.
func (r *terrain) has(client int, s *scout) bool {
	return r.clients[client].Actor(s.actor.Ref()) != nil
}

// copied returns a client's newest copy, which may be closed.
func (r *terrain) copied(client int, s *scout) *scout { return r.clients[client].all[s.actor.Ref()] }

// soon is when what has become relevant is open at the latest, on a good path.
const soon = 300 * time.Millisecond

// 12.3a: always relevant; owned by the viewer, is the view target; use owner's
// relevancy; only relevant to owner; else distance² < NetCullDistanceSquared.
func TestRelevancyOrder(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		r := newTerrain(t, net, 2, rpc.Config{})
		pawn := r.scout(0, 0)
		other := r.scout(1, 50)
		hidden := r.scout(-1, 5000)
		always := r.scout(-1, 5000, rpc.AlwaysRelevant())
		mine := r.scout(0, 5000)
		near, edge := r.scout(-1, 99.9), r.scout(-1, 100)
		secret := r.scout(1, 1, rpc.OnlyRelevantToOwner())
		medal := r.spawn(r.server.medals, 1, 0, rpc.RelevantAsOwner())
		plain := r.spawn(r.server.medals, 1, 0)
		lost := r.scout(-1, float32(math.NaN()))
		net.Advance(soon)
		for name, test := range map[string]struct {
			s    *scout
			want bool
		}{
			"its own": {pawn, true}, "another's, near": {other, true}, "far": {hidden, false}, "always": {always, true}, "its own, far": {mine, true},
			"near": {near, true}, "at the distance": {edge, false}, "only relevant to owner": {secret, false},
			"as its owner": {medal, true}, "neither At nor Relevant": {plain, false}, "nowhere": {lost, false},
		} {
			require.Equal(t, test.want, r.has(0, test.s), name)
		}
		require.True(t, r.has(1, secret))
		require.False(t, r.has(1, mine))

		require.NoError(t, r.conns[0].SetView(secret.actor))
		net.Advance(soon)
		require.True(t, r.has(0, secret), "the view target")
		require.True(t, r.has(0, edge), "99 m from there")

		other.spot.X = 4000
		net.Advance(6 * time.Second)
		require.False(t, r.has(0, other))
		require.False(t, r.has(0, medal), "its owner went away")
		require.True(t, r.has(1, medal))
		require.True(t, r.has(0, pawn), "owned, however far")
	})
}

// 12.3a: the view: of the first actor that the connection owns, of one that the
// game names, or a point.
func TestViews(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		r := newTerrain(t, net, 1, rpc.Config{})
		c := r.conns[0]
		places := []*scout{r.scout(-1, 0), r.scout(-1, 1000), r.scout(-1, 2000)}
		sees := func(want ...bool) {
			t.Helper()
			net.Advance(6 * time.Second)
			for i, place := range places {
				require.Equal(t, want[i], r.has(0, place), "place %d", i)
			}
		}
		from := func(want *rpc.Actor, at float32) {
			t.Helper()
			target, x, _, _, ok := c.View()
			require.Equal(t, want, target)
			require.True(t, ok && x == at || !ok && at == 0, "%v %v", x, ok)
		}
		sees(false, false, false)
		from(nil, 0)
		r.spawn(r.server.medals, 0, 0)
		pawn, far := r.scout(0, 10), r.scout(0, 2010)
		sees(true, false, false)
		from(pawn.actor, 10)
		require.NoError(t, c.SetViewPoint(1000, 50, 50))
		sees(false, true, false)
		from(nil, 1000)
		require.NoError(t, c.SetView(far.actor))
		sees(false, false, true)
		from(far.actor, 2010)
		require.NoError(t, r.server.Destroy(far.actor))
		sees(true, false, false)
		require.NoError(t, c.SetViewPoint(1000, float32(math.Inf(1)), 0))
		sees(false, false, false)
		require.NoError(t, c.SetView(nil))
		sees(true, false, false)
		require.NoError(t, r.server.Destroy(pawn.actor))
		sees(false, false, false)

		require.ErrorIs(t, c.SetView(far.actor), rpc.ErrClosed)
		require.ErrorContains(t, c.SetView(&rpc.Actor{}), "SetView to a nil *Actor")
		require.ErrorContains(t, c.SetView(r.spawn(r.server.medals, -1, 0).actor), "has no At")
		require.ErrorIs(t, r.clients[0].conn.SetView(nil), rpc.ErrWrongRole)
		require.ErrorIs(t, r.clients[0].conn.SetViewPoint(0, 0, 0), rpc.ErrWrongRole)
	})
}

// A connection sees from the pawn of its controller, which it owns through the chain.
func TestViewThroughTheChain(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		r := newTerrain(t, net, 1, rpc.Config{})
		near, far := r.scout(-1, 10), r.scout(-1, 1010)
		sees := func(from *rpc.Actor, want ...bool) {
			t.Helper()
			net.Advance(6 * time.Second)
			target, _, _, _, _ := r.conns[0].View()
			require.Equal(t, from, target)
			require.Equal(t, want, []bool{r.has(0, near), r.has(0, far)})
		}
		controller := r.spawn(r.server.medals, 0, 0)
		hand, _, err := rpc.Spawn(r.server.medals, controller.actor, nil)
		require.NoError(t, err)
		sees(nil, false, false)
		pawn, _, err := rpc.Spawn(r.server.scouts, hand, nil)
		require.NoError(t, err)
		sees(pawn, true, false)
		require.NoError(t, r.server.SetOwner(pawn, nil))
		sees(nil, false, false)
		require.NoError(t, r.server.SetOwner(pawn, controller.actor))
		sees(pawn, true, false)
		require.NoError(t, r.server.Destroy(pawn))
		itself := r.scout(0, 1000)
		_, _, err = rpc.Spawn(r.server.scouts, hand, nil)
		require.NoError(t, err)
		sees(itself.actor, false, true)
	})
}

// 12.3a: an own IsNetRelevantFor.
func TestOwnRelevant(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		r := newTerrain(t, net, 2, rpc.Config{})
		ghost, owned := r.spawn(r.server.ghosts, -1, 0), r.spawn(r.server.ghosts, 1, 0)
		net.Advance(2 * time.Second)
		require.False(t, r.has(0, ghost))
		require.True(t, r.has(1, owned), "its owner has it, whatever it says")
		before := ghost.asked
		net.Advance(10 * time.Second)
		require.InDelta(t, 20, ghost.asked-before, 2, "each pair once a second")

		ghost.haunts[r.conns[0]] = true
		net.Advance(1100 * time.Millisecond)
		require.True(t, r.has(0, ghost))
		require.False(t, r.has(1, ghost))
		delete(ghost.haunts, r.conns[0])
		net.Advance(4 * time.Second)
		require.True(t, r.has(0, ghost))
		net.Advance(2200 * time.Millisecond)
		require.False(t, r.has(0, ghost))
		require.Equal(t, []rpc.CloseReason{rpc.Relevancy}, r.copied(0, ghost).closed)
		require.True(t, r.has(1, owned))
	})
}

// 12.3b: an actor that stops being relevant keeps its channel for 5 s, then it
// closes with reason Relevancy and the client destroys its copy.
func TestRelevantTimeout(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		r := newTerrain(t, net, 1, rpc.Config{})
		r.scout(0, 0)
		s := r.scout(-1, 10)
		net.Advance(soon)
		require.True(t, r.has(0, s))
		left := time.Now()
		s.spot.X = 500
		net.Advance(4800 * time.Millisecond)
		require.True(t, r.has(0, s))
		require.EqualValues(t, 500, r.copied(0, s).spot.X, "what is kept is still told")
		net.Advance(time.Second)
		require.False(t, r.has(0, s))
		require.Equal(t, []rpc.CloseReason{rpc.Relevancy}, r.copied(0, s).closed)
		require.WithinRange(t, r.copied(0, s).closedAt, left.Add(5*time.Second-200*time.Millisecond), left.Add(5*time.Second+soon))
		require.True(t, s.actor.Alive())

		s.spot.X, s.spot.Count = 20, 7
		net.Advance(soon)
		require.True(t, r.has(0, s))
		require.EqualValues(t, 7, r.copied(0, s).spot.Count, "it opens with what is newest")
	})
}

// 12.3d: what a dormant actor tells reaches all who have a copy, also who sees it no more;
// whom the game closes it to learns nothing, keeps nothing, and has it again when it is seen.
func TestDormantCopiesLearnWhatTheyDoNotSee(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		r := newTerrain(t, net, 1, rpc.Config{})
		viewer := r.scout(0, 0)
		s := r.scout(-1, 10)
		require.NoError(t, s.actor.SetDormant(true))
		net.Advance(soon)
		viewer.spot.X = 500
		net.Advance(10 * time.Second)
		require.True(t, r.has(0, s), "relevancy ends no dormant copy")
		s.spot.Count = 1
		require.NoError(t, s.actor.FlushDormancy())
		net.Advance(soon)
		require.EqualValues(t, 1, r.copied(0, s).spot.Count)

		s.actor.CloseTo(r.conns[0])
		s.spot.Count = 2
		require.NoError(t, s.actor.FlushDormancy())
		net.Advance(time.Second)
		require.False(t, r.has(0, s))
		require.EqualValues(t, 1, r.copied(0, s).spot.Count)
		require.Equal(t, []rpc.CloseReason{rpc.Relevancy}, r.copied(0, s).closed)
		viewer.spot.X = 0
		net.Advance(soon)
		require.EqualValues(t, 2, r.copied(0, s).spot.Count)
	})
}

// 12.3b: what comes and goes each second never closes.
func TestFlappingKeepsTheChannel(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		r := newTerrain(t, net, 1, rpc.Config{})
		r.scout(0, 0)
		s := r.scout(-1, 10)
		for range 20 {
			net.Advance(time.Second)
			s.spot.X = 500 - s.spot.X
		}
		require.Equal(t, 1, r.clients[0].opened[s.actor.Ref()])
		require.Empty(t, r.copied(0, s).closed)
	})
}

// 12.3b, with Quiver's own words: what the game opens by hand stays for the
// same time; what it closes opens again when it is near.
func TestRelevancyAndByHand(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		r := newTerrain(t, net, 1, rpc.Config{})
		r.scout(0, 0)
		near, far, medal := r.scout(-1, 10), r.scout(-1, 500), r.spawn(r.server.medals, -1, 0)
		require.NoError(t, far.actor.OpenTo(r.conns[0]))
		require.NoError(t, medal.actor.OpenTo(r.conns[0]))
		net.Advance(4800 * time.Millisecond)
		require.True(t, r.has(0, far))
		near.actor.CloseTo(r.conns[0])
		net.Advance(time.Second)
		require.False(t, r.has(0, far))
		require.True(t, r.has(0, medal), "nobody else decides about it")
		require.True(t, r.has(0, near))
		require.Equal(t, 2, r.clients[0].opened[near.actor.Ref()])
	})
}

// 12.3a: only relevant to owner, when the owner changes: the last one has nothing more of it.
func TestOnlyRelevantToOwner(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		r := newTerrain(t, net, 2, rpc.Config{})
		s := r.spawn(r.server.medals, 0, 0, rpc.OnlyRelevantToOwner())
		net.Advance(10 * time.Second)
		require.True(t, r.has(0, s))
		require.NoError(t, r.server.SetOwner(s.actor, r.conns[1]))
		net.Advance(soon)
		require.False(t, r.has(0, s))
		require.Equal(t, []rpc.CloseReason{rpc.Relevancy}, r.copied(0, s).closed)
		require.True(t, r.has(1, s))
	})
}

// 12.3a and b: as its owner. Those to whom the new owner is not relevant keep the actor for
// the 5 s, the last owner's client too; where nobody but the owner had it, the last one's
// copy closes at once. While nobody owns it, it is where it lies, if its class has At.
func TestRelevantAsOwner(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		r := newTerrain(t, net, 4, rpc.Config{})
		first, _, far := r.scout(0, 0), r.scout(1, 50), r.scout(2, 5000)
		gun, lying := r.spawn(r.server.medals, -1, 0, rpc.RelevantAsOwner()), r.scout(-1, 10, rpc.RelevantAsOwner())
		haveAfter := func(d time.Duration, s *scout, want ...bool) {
			t.Helper()
			net.Advance(d)
			for client := range want {
				require.Equal(t, want[client], r.has(client, s), "client %d", client)
			}
		}
		haveAfter(soon, lying, true, true, false, false)
		haveAfter(0, gun, false, false, false, false)
		require.NoError(t, r.server.SetOwner(gun.actor, first.actor))
		haveAfter(soon, gun, true, true, false, false)
		require.NoError(t, r.server.SetOwner(gun.actor, far.actor))
		require.NoError(t, r.server.SetOwner(lying.actor, far.actor))
		haveAfter(4500*time.Millisecond, gun, true, true, true, false)
		haveAfter(time.Second, gun, false, false, true, false)
		haveAfter(0, lying, false, false, true, false)

		t.Log("# an owner who stands nowhere")
		require.NoError(t, r.server.SetOwner(gun.actor, r.conns[3]))
		haveAfter(6*time.Second, gun, false, false, false, true)
		require.NoError(t, r.server.SetOwner(gun.actor, first.actor))
		haveAfter(soon, gun, true, true, false, false)
	})
}

// TestOpenToIsForOneClient: what the game opens for one client stays open for that client alone,
// until CloseTo, when its owner changes. It once made every later owner keep its copy for good.
func TestOpenToIsForOneClient(t *testing.T) {
	for name, dormant := range map[string]bool{"awake": false, "dormant": true} {
		t.Run(name, func(t *testing.T) {
			off(t, func(t *testing.T, net *rpctest.Network) {
				r := newTerrain(t, net, 3, rpc.Config{})
				s := r.spawn(r.server.medals, 0, 0)
				haveAfter := func(to rpc.Owner, want ...bool) {
					t.Helper()
					require.NoError(t, r.server.SetOwner(s.actor, to))
					net.Advance(time.Second)
					for client := range want {
						require.Equal(t, want[client], r.has(client, s), "client %d", client)
					}
				}
				require.NoError(t, s.actor.OpenTo(r.conns[2]))
				if dormant {
					s.actor.SetDormant(true)
				}
				haveAfter(r.conns[1], false, true, true)
				require.NoError(t, s.actor.OpenTo(r.conns[1]))
				haveAfter(r.conns[2], false, true, true)
				haveAfter(r.conns[0], true, true, true)
				s.actor.CloseTo(r.conns[1])
				haveAfter(r.conns[1], false, true, true)
				haveAfter(nil, false, false, true)
			})
		})
	}
}

// TestOpenToOfTheOwnersOnly: OpenTo shows nobody what only its owner may see.
func TestOpenToOfTheOwnersOnly(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		r := newTerrain(t, net, 2, rpc.Config{})
		s := r.spawn(r.server.medals, 0, 0, rpc.OnlyRelevantToOwner())
		require.NoError(t, s.actor.OpenTo(r.conns[0]))
		err := s.actor.OpenTo(r.conns[1])
		require.ErrorIs(t, err, rpc.ErrNotOwner)
		require.ErrorContains(t, err, "actor is OnlyRelevantToOwner, and its owner is conn 1")
		net.Advance(time.Second)
		require.True(t, r.has(0, s))
		require.False(t, r.has(1, s))
		require.NoError(t, r.server.SetOwner(s.actor, r.conns[1]))
		net.Advance(soon)
		require.False(t, r.has(0, s), "OpenTo for its owner changes nothing")
		require.True(t, r.has(1, s))
	})
}

// TestRelevantAsOwnerOfOwners: who sees a pawn sees its gun and the gun's scope, whether or not
// they have an At, and nobody sees a gun by the position of a pawn that only its owner sees.
func TestRelevantAsOwnerOfOwners(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		r := newTerrain(t, net, 3, rpc.Config{})
		r.scout(0, 0)
		r.scout(1, 5000)
		pawn := r.scout(-1, 50)
		for _, b := range []*rpc.Binding[*scout]{r.server.medals, r.server.scouts} {
			gun, scope := r.spawn(b, -1, 5000, rpc.RelevantAsOwner()), r.spawn(b, -1, 5000, rpc.RelevantAsOwner())
			seen := func(want ...bool) {
				t.Helper()
				net.Advance(6 * time.Second)
				for client := range want {
					require.Equal(t, want[client], r.has(client, gun), "the gun at client %d", client)
					require.Equal(t, want[client], r.has(client, scope), "the scope at client %d", client)
				}
			}
			require.NoError(t, r.server.SetOwner(scope.actor, gun.actor))
			lies := b == r.server.scouts // it has an At
			seen(false, lies, false)
			require.NoError(t, r.server.SetOwner(gun.actor, pawn.actor))
			seen(true, false, false)
			require.NoError(t, r.server.SetOwner(pawn.actor, r.conns[2]))
			seen(true, false, true)
			require.NoError(t, r.server.SetOwner(pawn.actor, nil))

			ghost := r.scout(2, 50, rpc.OnlyRelevantToOwner())
			require.NoError(t, r.server.SetOwner(gun.actor, ghost.actor))
			seen(false, false, true)
			banner := r.spawn(r.server.medals, -1, 0, rpc.AlwaysRelevant())
			require.NoError(t, r.server.SetOwner(gun.actor, banner.actor))
			seen(true, true, true)
			require.NoError(t, r.server.Destroy(ghost.actor))
		}
	})
}

// TestLastOwnerWhoSeesIt: an actor leaves its owner before the client has acknowledged
// the open, and is relevant to that client all the same. The client keeps the copy
// that is in flight. Before, it closed, and opened again two round trips later.
func TestLastOwnerWhoSeesIt(t *testing.T) {
	for name, options := range map[string]rpc.SpawnOption{"near its new owner": rpc.RelevantAsOwner(), "the view of the client": rpc.OnlyRelevantToOwner()} {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, emulation.Settings{PktLag: 200 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
				r := newTerrain(t, net, 2, rpc.Config{})
				net.Advance(time.Second)
				bearer := r.scout(0, 0)
				require.NoError(t, r.conns[1].SetViewPoint(50, 0, 0))
				b := r.server.medals
				if name == "the view of the client" {
					b = r.server.scouts
				}
				gun := r.spawn(b, 1, 1000, options)
				require.NoError(t, r.server.SetOwner(gun.actor, bearer.actor))
				if b == r.server.scouts {
					require.NoError(t, r.conns[1].SetView(gun.actor))
				}
				gun.spot.Count = 7
				net.Advance(3 * time.Second)
				require.True(t, r.has(1, gun))
				require.Equal(t, 1, r.clients[1].opened[gun.actor.Ref()])
				require.False(t, r.copied(1, gun).actor.Owned())
				require.True(t, r.copied(0, gun).actor.Owned())
				if b == r.server.scouts {
					require.EqualValues(t, 7, r.copied(1, gun).spot.Count, "it gets updates again")
				}
				require.NoError(t, r.conns[1].SetViewPoint(9000, 0, 0))
				net.Advance(6 * time.Second)
				require.False(t, r.has(1, gun), "it closes as anybody's")
			})
		})
	}
}

// Who joins late has what is near within the time of a survey, the nearest first.
func TestLateJoinerSeesWhatIsNear(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		r := newTerrain(t, net, 1, rpc.Config{})
		for i := range 200 {
			r.scout(-1, float32(i))
		}
		net.Advance(time.Second)
		late := r.join()
		r.scout(late, 0)
		net.Advance(soon)
		require.Len(t, r.clients[late].all, 100+1)
		require.Empty(t, r.clients[0].all)
	})
}

// 12.3c: priority = time since the last update × NetPriority, changed by
// distance; under saturation the highest go first and the others gather time.
func TestNearOnesGoFirst(t *testing.T) {
	for name, test := range map[string]struct {
		weather emulation.Settings
		config  rpc.Config
	}{
		"narrow rate": {emulation.Settings{PktLag: 20 * time.Millisecond}, rpc.Config{Rate: 20_000}},
		"narrow path": {emulation.Settings{PktLag: 20 * time.Millisecond, Rate: 200_000}, rpc.Config{}},
	} {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, test.weather, func(t *testing.T, net *rpctest.Network) {
				updates := countUpdates(t, net, test.config)
				near, far := 0, 0
				for i := range 80 {
					near += updates[i]
					far += updates[len(updates)-1-i]
				}
				t.Logf("updates of the 80 nearest: %d, of the 80 farthest: %d", near, far)
				require.Less(t, near, 80*30*30*3/4, "the path takes all: the test shows nothing")
				require.Greater(t, near, far+far/3)
				require.Greater(t, slices.Min(updates), 10, "nobody starves")
			})
		})
	}
}

// countUpdates returns how many updates a client has in 30 s of 400 scouts, the
// nearest first, of which a packet takes some 90.
func countUpdates(t testing.TB, net *rpctest.Network, config rpc.Config) []int {
	r := newTerrain(t, net, 1, config)
	r.scout(0, 0)
	var all []*scout
	for i := range 400 {
		all = append(all, r.scout(-1, float32(i)/4.1))
	}
	net.Advance(10 * time.Second)
	updates, last := make([]int, len(all)), make([]uint32, len(all))
	for range 30 * 30 {
		for _, s := range all {
			s.spot.Count++
		}
		net.Advance(time.Second / 30)
		for i, s := range all {
			if count := r.copied(0, s).spot.Count; count != last[i] {
				last[i] = count
				updates[i]++
			}
		}
	}
	return updates
}

// Relevancy that flaps each second, and slower, on bad paths: afterwards every
// field at every client is the newest.
func TestFlappingOnBadNetworks(t *testing.T) {
	for name, weather := range map[string]emulation.Settings{
		"bad": rpctest.Bad, "loss": {PktLag: 50 * time.Millisecond, PktLoss: 20},
		"order": {PktLag: 30 * time.Millisecond, PktOrder: true, PktLoss: 5}, "narrow": {PktLag: 20 * time.Millisecond, Rate: 100_000, PktLoss: 5},
	} {
		t.Run(name, func(t *testing.T) {
			rpctest.Run(t, weather, func(t *testing.T, net *rpctest.Network) {
				random := rand.New(rand.NewPCG(net.Seed(), 2))
				r := newTerrain(t, net, 3, rpc.Config{})
				for i := range 3 {
					r.scout(i, float32(i)*30)
				}
				var all []*scout
				for range 20 {
					all = append(all, r.scout(-1, random.Float32()*300))
				}
				for second := range 30 {
					for i, s := range all {
						s.spot.Count++
						if i%2 == 0 || second%8 == 0 {
							s.spot.X = 400 - s.spot.X
						} else {
							s.spot.X += random.Float32() - 0.5
						}
					}
					net.Advance(time.Second)
				}
				net.Advance(15 * time.Second)
				open := 0
				for _, s := range all {
					for i := range r.clients {
						near := math.Abs(float64(s.spot.X)-float64(i)*30) < 100
						require.Equal(t, near, r.has(i, s), "client %d, %v at %v", i, s.actor, s.spot.X)
						if near {
							open++
							require.Equal(t, s.spot, r.copied(i, s).spot, "client %d, %v", i, s.actor)
						}
					}
				}
				require.NotZero(t, open)
			})
		})
	}
}

// What cannot be opened is told once a second at most, tried again, and takes nothing from others.
func TestRelevantWithoutAChannel(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		var log strings.Builder
		r := newTerrain(t, net, 1, rpc.Config{Bunch: bunch.Config{MaxChannels: 8}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r.scout(0, 0)
		var all []*scout
		for i := range 20 {
			all = append(all, r.scout(-1, float32(i+1)))
		}
		net.Advance(5 * time.Second)
		require.Len(t, r.clients[0].all, 8)
		require.True(t, r.has(0, all[0]), "the nearest are those that it has")
		told := strings.Count(log.String(), "actor not opened")
		require.True(t, 3 <= told && told <= 6, "told %d times", told)
		for _, s := range all[:10] {
			require.NoError(t, r.server.Destroy(s.actor))
		}
		net.Advance(1500 * time.Millisecond)
		require.True(t, r.has(0, all[10]))
		require.NoError(t, r.clients[0].conn.Err())
	})
}

// A function of the game that panics is told, and all others are asked.
func TestRelevancyPanics(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		panics := 0
		r := newTerrain(t, net, 1, rpc.Config{OnPanic: func(*rpc.Conn, string, any, []byte) { panics++ }})
		r.scout(0, 0)
		ghosts := []*scout{r.spawn(r.server.ghosts, -1, 0), r.spawn(r.server.ghosts, -1, 0), r.spawn(r.server.ghosts, -1, 0)}
		ghosts[0].haunts[r.conns[0]], ghosts[2].haunts[r.conns[0]] = true, true
		ghosts[1].broken = true
		r.scout(-1, 10).broken = true
		near := r.scout(-1, 20)
		net.Advance(2 * time.Second)
		require.InDelta(t, 20+2, panics, 3, "ten times a second, and once")
		require.True(t, r.has(0, ghosts[0]))
		require.True(t, r.has(0, ghosts[2]))
		require.True(t, r.has(0, near))
	})
}

// A function of the game that panics while a Multicast opens what has just been
// spawned is told, ends no call, and leaves others theirs.
func TestMulticastWhereRelevantPanics(t *testing.T) {
	off(t, func(t *testing.T, net *rpctest.Network) {
		var panics []string
		newWorld := func() (*rpc.World, *rpc.Binding[*trooper]) {
			w, err := rpc.NewWorld(rpc.Config{OnPanic: func(_ *rpc.Conn, what string, _ any, _ []byte) { panics = append(panics, what) }})
			require.NoError(t, err)
			b := rpc.Bind(w, soldier, func(a *rpc.Actor) *trooper { return &trooper{actor: a} })
			rpc.On(b, cheer, func(s *trooper, _ *rpc.Call, _ int) { s.heard = append(s.heard, "cheer") })
			return w, b
		}
		server, soldiers := newWorld()
		var first *rpc.Conn
		rpc.Relevant(soldiers, func(_ *trooper, viewer *rpc.Conn) bool {
			if viewer == first {
				panic("no")
			}
			return true
		})
		net.Server(server)
		var copies []*rpc.Binding[*trooper]
		for range 2 {
			client, b := newWorld()
			net.Client(client)
			copies = append(copies, b)
		}
		first = server.Conns()[0]
		actor, _, err := rpc.Spawn(soldiers, nil, nil)
		require.NoError(t, err)
		require.NoError(t, cheer.Call(actor, 1))
		require.Len(t, panics, 1)
		require.Contains(t, panics[0], "Relevant of ")
		net.Advance(soon)
		_, ok := copies[0].At(actor.Ref())
		require.False(t, ok)
		s, ok := copies[1].At(actor.Ref())
		require.True(t, ok)
		require.Equal(t, []string{"cheer"}, s.heard)
	})
}

// 6.1g: the first Multicast after a Spawn opens the actor for those to whom it
// is relevant, by the distance or by the game's function, and for nobody else.
func TestMulticastOfWhatHasJustSpawned(t *testing.T) {
	for _, byGame := range []bool{false, true} {
		off(t, func(t *testing.T, net *rpctest.Network) {
			newWorld := func() (*rpc.World, *rpc.Binding[*trooper]) {
				w, err := rpc.NewWorld(rpc.Config{})
				require.NoError(t, err)
				b := rpc.Bind(w, soldier, func(a *rpc.Actor) *trooper { return &trooper{actor: a} })
				rpc.At(b, func(s *trooper) (x, y, z float32) { return s.pose.X, 0, 0 })
				if byGame {
					rpc.Relevant(b, func(s *trooper, viewer *rpc.Conn) bool { return s.pose.X < 10 })
				}
				rpc.On(b, cheer, func(s *trooper, _ *rpc.Call, _ int) { s.heard = append(s.heard, "cheer") })
				return w, b
			}
			server, soldiers := newWorld()
			net.Server(server)
			client, copies := newWorld()
			net.Client(client)
			viewer := server.Conns()[0]
			_, _, err := rpc.Spawn(soldiers, viewer, nil)
			require.NoError(t, err)
			net.Advance(soon)
			heard := func(x float32) (heard []string, open bool) {
				actor, _, err := rpc.Spawn(soldiers, nil, func(s *trooper) { s.pose.X = x })
				require.NoError(t, err)
				require.NoError(t, cheer.Call(actor, 1))
				net.Advance(time.Second)
				if s, ok := copies.At(actor.Ref()); ok {
					return s.heard, true
				}
				return nil, false
			}
			calls, open := heard(1)
			require.True(t, open)
			require.Equal(t, []string{"cheer"}, calls)
			_, open = heard(1e6)
			require.False(t, open, "it is far away")
		})
	}
}
