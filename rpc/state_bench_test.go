package rpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// body is a state of twelve fields.
type body struct {
	X, Y, Z, Yaw, Pitch float32 `quiver:"quant=0.01"`
	Speed               float32 `quiver:"quant=0.1"`
	Health, Armor, Ammo uint16
	Weapon, Stance      uint8
	Target              Ref
}

type walker struct{ body body }

// newWalkers makes a server with actors that are open on a connection which takes nothing.
func newWalkers(t testing.TB, n int) (*World, []*walker) {
	class := NewClass("Walker")
	bodies := NewState[body](class)
	w, err := NewWorld(Config{Classes: []*Class{class}})
	require.NoError(t, err)
	b := Bind(w, class, func(*Actor) *walker { return new(walker) })
	Replicate(b, bodies, func(o *walker) *body { return &o.body })
	gone := &Conn{world: w, server: true}
	gone.life.closing.Store(true)
	w.frame.allConns = true // as in a tick
	var all []*walker
	for range n {
		a, o, err := Spawn(b, nil, nil)
		require.NoError(t, err)
		a.openings = []*opening{{actor: a, conn: gone, closed: true}}
		w.watch(a)
		all = append(all, o)
	}
	return w, all
}

// BenchmarkChangingActors tells what one in eight actors costs whose position changes.
func BenchmarkChangingActors(b *testing.B) {
	w, all := newWalkers(b, 10_000)
	b.ReportAllocs()
	for tick := 0; b.Loop(); tick++ {
		for i := tick % 8; i < len(all); i += 8 {
			all[i].body.X += 0.1
			all[i].body.Yaw += 0.1
		}
		w.replicate(time.Now())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(all)/8), "ns/changed")
}

// BenchmarkStillActors tells what ten thousand states cost, of which one changes.
func BenchmarkStillActors(b *testing.B) {
	w, all := newWalkers(b, 10_000)
	b.ReportAllocs()
	for tick := 0; b.Loop(); tick++ {
		all[tick%len(all)].body.X += 0.1
		w.replicate(time.Now())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(all)), "ns/state")
}
