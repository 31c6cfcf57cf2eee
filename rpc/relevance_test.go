package rpc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/relevancy"
	"github.com/quivernet/quiver/internal/testkit"
)

// The classes of the tests of relevancy: trees stand somewhere, elves decide
// themselves who sees them.
var (
	treeClass = NewClass("Tree")
	treeState = NewState[treePlace](treeClass)
	elfClass  = NewClass("Elf")
)

type treePlace struct{ X, Y, Z float32 }

type oak struct {
	actor *Actor
	place treePlace
}

func (o *oak) at() (x, y, z float32) { return o.place.X, o.place.Y, o.place.Z }

// forest binds both classes in a world.
func forest(w *World) (trees, elves *Binding[*oak]) {
	trees = Bind(w, treeClass, func(a *Actor) *oak { return &oak{actor: a} })
	elves = Bind(w, elfClass, func(a *Actor) *oak { return &oak{actor: a} })
	Replicate(trees, treeState, func(o *oak) *treePlace { return &o.place })
	At(trees, (*oak).at)
	Relevant(elves, func(o *oak, viewer *Conn) bool { return (uint64(o.place.X)+viewer.id)%3 == 0 })
	return trees, elves
}

func TestAtAndRelevantArePickyAboutFunctions(t *testing.T) {
	w, err := NewWorld(Config{})
	require.NoError(t, err)
	trees, elves := forest(w)
	require.PanicsWithValue(t, "rpc: At(Tree): function already set: call At for it only once, with a function that does all", func() { At(trees, (*oak).at) })
	require.PanicsWithValue(t, "rpc: At(Elf): nil function", func() { At(elves, nil) })
	require.PanicsWithValue(t, "rpc: Relevant(Elf): function already set: call Relevant for it only once, with a function that does all", func() {
		Relevant(elves, func(*oak, *Conn) bool { return false })
	})
	require.PanicsWithValue(t, "rpc: Relevant(Tree): nil function", func() { Relevant(trees, nil) })
	require.Panics(t, func() { CullDistance(0) })
	require.EqualValues(t, 150, treeClass.cullDistance)
}

// A function that decides about relevancy may do to actors whatever else a
// function of the game may.
func TestRelevantMayDoAnything(t *testing.T) {
	inNet(t, 0, Config{Classes: []*Class{treeClass, elfClass}}, func(n *network) {
		w := n.server.World
		asked := 0
		var elves *Binding[*oak]
		var first *oak
		plantOne := func() *oak {
			_, o, err := Spawn(elves, nil, nil)
			require.NoError(t, err)
			return o
		}
		Bind(w, treeClass, func(a *Actor) *oak { return &oak{actor: a} })
		elves = Bind(w, elfClass, func(a *Actor) *oak { return &oak{actor: a} })
		Relevant(elves, func(o *oak, viewer *Conn) bool {
			switch asked++; asked % 5 {
			case 0:
				require.NoError(t, w.Destroy(o.actor))
				plantOne() // in the same slot
			case 1:
				o.actor.CloseTo(viewer)
			case 2:
				require.NoError(t, o.actor.OpenTo(viewer))
			case 3:
				require.NoError(t, w.Destroy(first.actor))
				first = plantOne()
			}
			return asked%2 == 0
		})
		for range 7 {
			first = plantOne()
		}
		for range 2 {
			_, err := n.connect(forester(t))
			require.NoError(t, err)
		}
		n.tick(30 * 20)
		require.Greater(t, asked, 200)
		require.Equal(t, len(w.actors.byRef), w.relevance.members)
		for _, c := range w.announced {
			require.Len(t, c.channels.byNumber, len(c.shown.view.openings))
			for i, o := range c.shown.view.openings {
				require.Equal(t, i, o.viewIndex)
				require.False(t, o.closed)
				require.Same(t, w.relevance.gameActors.Items[o.actor.relevancy.slot], o.actor)
			}
		}
		for _, a := range w.relevance.gameActors.Items {
			require.Nil(t, a.relevancy.here)
		}
	})
}

// A constructor may open its actor, and close it again, before there is any state.
func TestConstructorOpensAndCloses(t *testing.T) {
	inNet(t, 0, Config{Classes: []*Class{treeClass, elfClass}}, func(n *network) {
		w := n.server.World
		client := forester(t)
		trees := Bind(w, treeClass, func(a *Actor) *oak {
			for _, c := range w.announced {
				require.NoError(t, a.OpenTo(c))
				a.CloseTo(c)
			}
			return &oak{actor: a}
		})
		Replicate(trees, treeState, func(o *oak) *treePlace { return &o.place })
		_, err := n.connect(client)
		require.NoError(t, err)
		n.tick(3)
		a, o, err := Spawn(trees, nil, nil)
		require.NoError(t, err)
		require.NoError(t, a.OpenTo(w.announced[0]))
		n.tick(5)
		o.place.X = 7
		n.tick(5)
		require.EqualValues(t, 7, client.Actor(a.Ref()).own.object.(*oak).place.X)
	})
}

// TestRelevanceForgetsAll spawns, destroys, joins and leaves at random; then
// nothing is left in any set.
func TestRelevanceForgetsAll(t *testing.T) {
	random := testkit.Rand(t)
	inNet(t, 0, Config{Classes: []*Class{treeClass, elfClass}}, func(n *network) {
		w := n.server.World
		trees, elves := forest(w)
		var all []*oak
		for range 600 {
			switch what := random.IntN(12); {
			case what < 4 && len(all) < 60:
				all = append(all, n.plant(random, trees, elves))
			case what < 6 && len(all) > 0:
				i := random.IntN(len(all))
				require.NoError(t, w.Destroy(all[i].actor))
				all[i] = all[len(all)-1]
				all = all[:len(all)-1]
			case what == 6 && len(w.announced) < 4:
				_, err := n.connect(forester(t))
				require.NoError(t, err)
			case what == 7 && len(w.announced) > 0 && random.IntN(3) == 0:
				w.announced[random.IntN(len(w.announced))].Close(0, "")
			case len(all) > 0:
				n.disturb(random, all[random.IntN(len(all))])
			}
			n.tick(1 + random.IntN(8))
			all = alive(all)
		}
		n.tick(5) // who has just been welcomed has yet to join
		for _, o := range all {
			require.NoError(t, w.Destroy(o.actor))
		}
		for _, c := range w.announced {
			require.Empty(t, c.shown.view.openings)
		}
		for _, c := range w.announced {
			c.Close(0, "")
		}
		n.tick(100)
		r := &w.relevance
		require.Empty(t, w.announced)
		require.Zero(t, r.members)
		require.Empty(t, w.replicator.states)
		for _, in := range []*relevancy.Slots[Actor]{&r.gridActors, &r.gameActors} {
			require.Empty(t, in.Items)
			require.NotZero(t, cap(in.Items))
			for _, a := range in.Items[:cap(in.Items)] {
				require.Nil(t, a)
			}
		}
		for _, o := range append(r.outOfSight[:cap(r.outOfSight)], make([]*opening, 1)...) {
			require.Nil(t, o)
		}
		for _, o := range append(r.wanted[:cap(r.wanted)], candidate{}) {
			require.Nil(t, o.actor)
		}
	})
}

// forester returns a client's world of trees and elves.
func forester(t testing.TB) *testWorld {
	w := newTestWorld(t, Config{})
	forest(w.World)
	return w
}

// plant spawns something somewhere, for anybody.
func (n *network) plant(random *rand.Rand, trees, elves *Binding[*oak]) *oak {
	b := trees
	if random.IntN(3) == 0 {
		b = elves
	}
	var owner *Conn
	if conns := n.server.announced; len(conns) > 0 && random.IntN(2) == 0 {
		owner = conns[random.IntN(len(conns))]
		if !owner.usable() {
			owner = nil
		}
	}
	options := [][]SpawnOption{nil, nil, nil, {AlwaysRelevant()}, {OnlyRelevantToOwner()}, {RelevantAsOwner()}}[random.IntN(6)]
	_, o, err := Spawn(b, owner, func(o *oak) { o.place.X = random.Float32() * 400 }, options...)
	require.NoError(n.t, err)
	return o
}

// disturb does something to an actor.
func (n *network) disturb(random *rand.Rand, o *oak) {
	o.place.X = random.Float32() * 400
	conns := n.server.announced
	if len(conns) == 0 {
		return
	}
	c := conns[random.IntN(len(conns))]
	switch random.IntN(5) {
	case 0:
		_ = n.server.SetOwner(o.actor, c)
	case 1:
		_ = n.server.SetOwner(o.actor, nil)
	case 2:
		_ = c.SetView(o.actor)
	case 3:
		_ = o.actor.OpenTo(c)
	case 4:
		o.actor.CloseTo(c)
	}
}

func alive(all []*oak) (rest []*oak) {
	for _, o := range all {
		if o.actor.Alive() {
			rest = append(rest, o)
		}
	}
	return rest
}

// Each pair is asked about once a second, a part of them at each Flush, and
// never more than maxQueries at one.
func TestAskingIsSpread(t *testing.T) {
	for _, test := range []struct{ elves, viewers int }{{7, 3}, {200, 10}, {1500, 40}} {
		w := newWoods(t, 0, test.viewers)
		var asked, most int
		count := make(map[*oak]int)
		elves := &Binding[*oak]{untyped: w.bindings[elfClass], world: w.World}
		elves.untyped.relevant = func(object any, _ *Conn) bool {
			asked++
			count[object.(*oak)]++
			return false
		}
		for range test.elves {
			_, _, err := Spawn(elves, nil, nil)
			require.NoError(t, err)
		}
		pairs := test.elves * test.viewers
		for range 5 * 30 {
			asked = 0
			w.step()
			most = max(most, asked)
		}
		require.LessOrEqual(t, most, pairs/30+1, "evenly")
		for _, n := range count {
			require.InDelta(t, 5*test.viewers, n, float64(test.viewers), "once a second for each viewer")
		}
		require.Len(t, count, test.elves)
		asked, w.now = 0, w.now.Add(time.Minute)
		w.step()
		require.Equal(t, min(pairs, maxQueries), asked, "a pause owes a round at most")
	}
}

// A crowd of actors that has gone again, as after a battle, slows no question:
// each pair is asked about once a second as before.
func TestAskingAfterACrowd(t *testing.T) {
	const crowd, elves, viewers = 60_000, 10, 20
	w := newWoods(t, 0, viewers)
	asked := 0
	binding := &Binding[*oak]{untyped: w.bindings[elfClass], world: w.World}
	binding.untyped.relevant = func(any, *Conn) bool { asked++; return false }
	spawn := func(count int) (all []*oak) {
		for range count {
			_, o, err := Spawn(binding, nil, nil)
			require.NoError(t, err)
			all = append(all, o)
		}
		return all
	}
	gone := spawn(crowd)
	w.step()
	for _, o := range gone {
		require.NoError(t, w.Destroy(o.actor))
	}
	spawn(elves)
	w.step()
	asked = 0
	for range 5 * 30 {
		w.step()
	}
	require.InDelta(t, 5*elves*viewers, asked, elves*viewers, "once a second for each viewer")
	require.Len(t, w.relevance.gameActors.Items, elves)
}

// Actors change their places when a crowd has gone, and are where they were:
// each viewer still finds those that are near, and no others.
func TestPlacesAfterACrowd(t *testing.T) {
	w := newWoods(t, 3000, 2)
	var rest []*oak
	for i, o := range w.trees {
		if i%10 == 9 {
			rest = append(rest, o)
		} else {
			require.NoError(t, w.Destroy(o.actor))
		}
	}
	w.trees = rest
	for range 7 * 30 { // relevantTime, and a survey
		w.step()
	}
	require.Len(t, w.relevance.gridActors.Items, len(rest))
	for _, c := range w.announced {
		x, y, z, ok := c.viewpoint()
		require.True(t, ok)
		near := 0
		for _, o := range rest {
			dx, dy, dz := o.place.X-x, o.place.Y-y, o.place.Z-z
			switch away := dx*dx + dy*dy + dz*dz; {
			case away < 148*148:
				near++
				require.NotNil(t, o.actor.openingOn(c))
			case away > 152*152:
				require.Nil(t, o.actor.openingOn(c))
			}
		}
		require.NotZero(t, near)
	}
}

// woods is a world with trees that tremble, and viewers that see some 200 each. No peer answers.
type woods struct {
	*World
	trees []*oak
	now   time.Time
	steps int
}

func newWoods(t testing.TB, trees, viewers int) *woods {
	world, err := NewWorld(Config{MaxConns: viewers, MaxHandshakes: viewers, HelloTimeout: time.Hour, HandshakeTimeout: time.Hour, IdleTimeout: time.Hour})
	require.NoError(t, err)
	w := &woods{World: world, now: time.Now()}
	binding, _ := forest(world)
	random := rand.New(rand.NewPCG(1, 2))
	const side = 1880 // so that 200 of 10,000 are nearer than 150
	for range trees {
		_, o, err := Spawn(binding, nil, func(o *oak) { o.place.X, o.place.Y = random.Float32()*side, random.Float32()*side })
		require.NoError(t, err)
		w.trees = append(w.trees, o)
	}
	for range viewers {
		c, err := w.Attach(silentCarrier{make(chan struct{})})
		require.NoError(t, err)
		c.terms.maxBunch = 65536
		c.joinWorld()
	}
	for range viewers { // a Dispatch of a busy machine announces one at least
		w.Dispatch(time.Now())
	}
	require.Len(t, w.announced, viewers)
	for _, c := range w.announced {
		require.NoError(t, c.SetViewPoint(150+random.Float32()*(side-300), 150+random.Float32()*(side-300), 0))
	}
	for range 60 { // all that will ever be near is open, and all cells have grown
		w.step()
	}
	t.Cleanup(func() {
		for _, c := range w.announced {
			require.NoError(t, c.Err(), "a viewer has left before the end")
		}
		require.NoError(t, w.Close(context.Background(), 0, ""))
		w.Tick(time.Now())
	})
	return w
}

// step moves all trees to and fro, and relates for a thirtieth of a second.
func (w *woods) step() {
	w.move()
	w.now = w.now.Add(time.Second / 30)
	w.updateRelevancy(w.now)
}

func (w *woods) move() {
	w.steps++
	by := float32(w.steps%8) - 3.5
	for _, o := range w.trees {
		o.place.X += by / 4
	}
}

func (w *woods) open() (n int) {
	for _, c := range w.announced {
		n += len(c.shown.view.openings)
	}
	return n
}

// BenchmarkIdleActors is a Flush's part for actors that stand still, and for whom nobody is there.
func BenchmarkIdleActors(b *testing.B) {
	w := newWoods(b, 10_000, 0)
	b.ReportAllocs()
	for b.Loop() {
		w.now = w.now.Add(time.Second / 30)
		w.updateRelevancy(w.now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/actor")
}

func BenchmarkRelevancy(b *testing.B) {
	for _, size := range []struct{ actors, viewers int }{{10_000, 100}, {10_000, 10}, {10_000, 0}, {1000, 100}} {
		b.Run(fmt.Sprintf("%d×%d", size.actors, size.viewers), func(b *testing.B) {
			w := newWoods(b, size.actors, size.viewers)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				w.move()
				b.StartTimer()
				w.now = w.now.Add(time.Second / 30)
				w.updateRelevancy(w.now)
			}
			b.ReportMetric(float64(w.open())/float64(max(size.viewers, 1)), "open/viewer")
		})
	}
}

// What sleeps at a client, or is torn off, is near without being wanted: it takes nobody's turn.
func TestSleepersAreNotWanted(t *testing.T) {
	w := newWoods(t, 0, 1)
	c := w.announced[0]
	trees := &Binding[*oak]{untyped: w.bindings[treeClass], world: w.World}
	require.NoError(t, c.SetViewPoint(0, 0, 0))
	plant := func(x float32) *Actor {
		a, _, err := Spawn(trees, nil, func(o *oak) { o.place.X = x })
		require.NoError(t, err)
		return a
	}
	var torn []*Actor
	for range 10 {
		torn = append(torn, plant(0))
	}
	for range maxOpened + 10 {
		require.NoError(t, plant(0).SetDormant(true))
	}
	pass := func() {
		for range 10 {
			w.step()
			w.closeChannels()
		}
	}
	pass()
	require.Equal(t, maxOpened+10, len(c.shown.detached), "asleep")
	for _, a := range torn {
		require.NoError(t, a.TearOff())
	}
	require.Equal(t, maxOpened+10, w.relevance.members, "what is torn off is for nobody any more")
	far := plant(100)
	pass()
	require.NotNil(t, far.openingOn(c), "farther away than a thousand that sleep")
}
