package relevancy

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	nan = float32(math.NaN())
	inf = float32(math.Inf(1))
)

// numbered is a Grid whose items are numbers.
type numbered struct {
	Grid[int32]
	places map[int32]*Place[int32]
}

// place returns that of a number.
func (g *numbered) place(id int32) *Place[int32] {
	if g.places == nil {
		g.places = make(map[int32]*Place[int32])
	}
	if g.places[id] == nil {
		g.places[id] = &Place[int32]{Item: &id}
	}
	return g.places[id]
}

func (g *numbered) set(id int32, x, y, z, radius float32) { g.Set(g.place(id), x, y, z, radius) }

// near returns the numbers that a point is near to, in order.
func (g *numbered) near(x, y, z float32) []int32 {
	var ids []int32
	for _, f := range g.Near(nil, x, y, z) {
		ids = append(ids, *f.Item)
	}
	slices.Sort(ids)
	return ids
}

func TestNear(t *testing.T) {
	type point struct{ x, y, z float32 }
	for name, test := range map[string]struct {
		item   point
		radius float32
		from   point
		near   bool
	}{
		"the same place":           {point{1, 2, 3}, 10, point{1, 2, 3}, true},
		"just inside":              {point{0, 0, 0}, 10, point{9.999, 0, 0}, true},
		"at the radius":            {point{0, 0, 0}, 10, point{10, 0, 0}, false},
		"at a radius of the edge":  {point{0, 0, 0}, 8, point{8, 0, 0}, false},
		"just inside of the edge":  {point{8, 0, 0}, 8, point{0.001, 0, 0}, true},
		"below zero":               {point{-0.5, -0.5, -0.5}, 1, point{0.05, 0.05, 0.05}, true},
		"all axes count":           {point{0, 0, 0}, 10, point{6, 6, 6}, false},
		"a corner cube":            {point{7.9, 7.9, 7.9}, 8, point{8.1, 8.1, 8.1}, true},
		"tiny radius":              {point{1000, 0, 0}, 1e-30, point{1000, 0, 0}, true},
		"tiny radius, beside":      {point{1000, 0, 0}, 1e-30, point{1000.001, 0, 0}, false},
		"the smallest radius":      {point{}, math.SmallestNonzeroFloat32, point{}, true},
		"infinite radius":          {point{1e30, 0, 0}, inf, point{-1e30, 5, 5}, true},
		"far out":                  {point{3e38, 0, 0}, 10, point{3e38, 5, 0}, true},
		"far out, other side":      {point{3e38, 0, 0}, 10, point{-3e38, 0, 0}, false},
		"beyond the last cube":     {point{1e20, 0, 0}, 1, point{1e20, 0.5, 0}, true},
		"beyond the last, farther": {point{1e20, 0, 0}, 1, point{2e20, 0, 0}, false},
		"NaN item":                 {point{nan, 0, 0}, 10, point{}, false},
		"infinite item":            {point{0, inf, 0}, inf, point{}, false},
		"NaN radius":               {point{}, nan, point{}, false},
		"no radius":                {point{}, 0, point{}, false},
		"NaN viewer":               {point{}, 10, point{0, 0, nan}, false},
		"infinite viewer":          {point{}, inf, point{-inf, 0, 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var g numbered
			g.set(0, test.item.x, test.item.y, test.item.z, test.radius)
			require.Equal(t, test.near, len(g.near(test.from.x, test.from.y, test.from.z)) == 1)
		})
	}
}

func TestSetMovesAndRemoves(t *testing.T) {
	var g numbered
	require.Empty(t, g.near(0, 0, 0))
	g.Remove(g.place(3))
	g.set(3, 0, 0, 0, 10)
	g.set(1, 1, 0, 0, 1000)
	require.Equal(t, []int32{1, 3}, g.near(0, 0, 0))
	require.Len(t, g.levels, 2)
	g.set(3, 1, 1, 1, 10)
	require.Equal(t, []int32{1, 3}, g.near(0, 0, 0), "it moved within its cell")
	g.set(3, 100, 0, 0, 10)
	require.Equal(t, []int32{1}, g.near(0, 0, 0))
	g.set(3, 0, 0, 0, 500)
	require.Equal(t, []int32{1, 3}, g.near(400, 0, 0), "its radius grew")
	g.set(1, nan, 0, 0, 1000)
	require.Equal(t, []int32{3}, g.near(0, 0, 0), "it is nowhere")
	g.set(1, 0, 0, 0, 1000)
	g.Remove(g.place(1))
	g.Remove(g.place(1))
	g.Remove(g.place(3))
	require.Empty(t, g.levels)
	require.Empty(t, g.cells)
}

func TestFarIsAPartOfTheRadius(t *testing.T) {
	var g numbered
	g.set(0, 0, 0, 0, 10)
	require.Equal(t, []Found[int32]{{g.place(0).Item, 0.25}}, g.Near(nil, 5, 0, 0))
}

// TestRandomWalks compares with a look at every item, while items are added and
// removed, move, jump and change their radius.
func TestRandomWalks(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("QUIVER_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("repeat with QUIVER_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var g numbered
	items := make([]stood, 300) // radius 0 = nowhere
	somewhere := func() float32 { return float32(random.NormFloat64() * 100) }
	for range 3000 {
		id := int32(random.IntN(len(items)))
		e := &items[id]
		switch random.IntN(6) {
		case 0:
			*e = stood{}
			g.Remove(g.place(id))
			continue
		case 1, 2: // anywhere, with a radius between 0.001 and 10,000
			*e = stood{somewhere(), somewhere(), somewhere(), float32(math.Pow(10, random.Float64()*7-3))}
		case 3: // on corners of cubes
			*e = stood{float32(random.IntN(9)*16 - 64), float32(random.IntN(9)*16 - 64), 0, 16}
		default: // a step
			e.x += random.Float32() - 0.5
		}
		g.set(id, e.x, e.y, e.z, e.radius)
		x, y, z := somewhere(), somewhere(), somewhere()
		if random.IntN(3) == 0 {
			x, y, z = float32(random.IntN(9)*16-64), float32(random.IntN(9)*16-64), 0
		}
		near := g.near(x, y, z)
		require.Equal(t, bruteForce(items, x, y, z), near, "seed %d, from %v %v %v", seed, x, y, z)
		require.Equal(t, slices.Contains(near, id), g.place(id).IsNear(x, y, z), "seed %d, from %v %v %v", seed, x, y, z)
	}
}

// stood is where an item stands.
type stood struct{ x, y, z, radius float32 }

// bruteForce asks every item.
func bruteForce(items []stood, x, y, z float32) []int32 {
	var ids []int32
	for id, e := range items {
		dx, dy, dz := float64(e.x)-float64(x), float64(e.y)-float64(y), float64(e.z)-float64(z)
		if dx*dx+dy*dy+dz*dz < float64(e.radius)*float64(e.radius) {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

// crowd is a flat world with many items, of which a viewer is near to about 200.
type crowd struct {
	grid   Grid[int]
	random *rand.Rand
	places []Place[int]
	x, y   []float32
	found  []Found[int]
}

const crowdRadius, crowdSide = 150, 1880

func newCrowd(items int) *crowd {
	c := &crowd{random: rand.New(rand.NewPCG(1, 2)), places: make([]Place[int], items), x: make([]float32, items), y: make([]float32, items)}
	for i := range items {
		c.x[i], c.y[i] = c.random.Float32()*crowdSide, c.random.Float32()*crowdSide
		c.grid.Set(&c.places[i], c.x[i], c.y[i], 0, crowdRadius)
	}
	return c
}

// step moves all items by up to a metre, within the world.
func (c *crowd) step() {
	for i := range c.x {
		c.x[i] = min(max(c.x[i]+c.random.Float32()*2-1, 0), crowdSide)
		c.y[i] = min(max(c.y[i]+c.random.Float32()*2-1, 0), crowdSide)
		c.grid.Set(&c.places[i], c.x[i], c.y[i], 0, crowdRadius)
	}
}

func (c *crowd) look(viewers int) {
	for i := range viewers {
		c.found = c.grid.Near(c.found[:0], c.x[i], c.y[i], 0)
	}
}

func TestGridAllocatesNothing(t *testing.T) {
	c := newCrowd(10_000)
	for range 500 { // cells have grown to what they will ever hold
		c.step()
	}
	c.look(100)
	require.LessOrEqual(t, testing.AllocsPerRun(20, func() {
		c.step()
		c.look(100)
	}), 0.5)
}

func BenchmarkMove(b *testing.B) {
	c := newCrowd(10_000)
	b.ReportAllocs()
	for b.Loop() {
		c.step()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/item")
}

func BenchmarkNear(b *testing.B) {
	c := newCrowd(10_000)
	b.ReportAllocs()
	total := 0
	for b.Loop() {
		c.look(100)
		total = len(c.found)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/viewer")
	b.ReportMetric(float64(total), "near")
}
