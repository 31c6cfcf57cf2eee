package relevancy

import (
	"math"
	"slices"
)

// A Grid is a spatial hash, which finds the items that are near a point. It divides space into
// cubes, of which only those with items use memory.
//
// Because the edge of an item's cube is at least as long as the item's radius, any point that is
// near enough to the item is in the same cube or in an adjacent one, so Near examines no more than
// 27 cubes. Since radii differ widely, there are cubes of many sizes: edges are powers of two, and
// the cubes of each size in use form a level. Near examines each level in the same way.
//
// The zero Grid is empty. It is not safe for concurrent use.
type Grid[T any] struct {
	cells  map[key]*cell[T] // cubes with items
	free   []*cell[T]       // unused cells, which keep the memory of their entries
	levels []level          // levels with items, in no particular order
}

// A Place is the place of an item in the grid. The zero Place is that of an item that isn't there.
type Place[T any] struct {
	Item *T
	cell *cell[T] // nil if the item is not in the grid
	at   int      // index of the item in the cell's entries
}

// A cell is a cube with items.
type cell[T any] struct {
	key
	inverse float64 // 1/edge
	entries []entry[T]
}

// A key identifies a cube by its number along each axis, and by the exponent of its edge, which is
// a power of two.
type key struct{ x, y, z, level int32 }

// An entry is what Near needs of an item. The entries of a cell are next to each other in memory.
type entry[T any] struct {
	x, y, z, radius float32
	place           *Place[T]
}

// A level counts the items in cubes of one size.
type level struct {
	exponent int32
	edge     float64
	items    int
}

// Found is an item to which a point is near enough.
type Found[T any] struct {
	Item *T
	Far  float32 // squared distance divided by squared radius: 0 to 1
}

// maxNumber is the largest number of a cube along an axis. Items beyond it share the outermost
// cube, so Near becomes slow if there are many of them, but its results remain correct.
const maxNumber = 1 << 30

// Set puts an item at a point, or moves it there. The item is near any point that is less than
// radius away. If a coordinate is not finite or the radius is not above 0, Set removes the item.
func (g *Grid[T]) Set(place *Place[T], x, y, z, radius float32) {
	if !isPoint(x, y, z) || !(radius > 0) {
		g.Remove(place)
		return
	}
	radius = min(radius, math.MaxFloat32)
	e := entry[T]{x, y, z, radius, place}
	if place.cell == nil {
		g.insert(keyOf(e, exponentOf(radius)), e)
		return
	}
	old := &place.cell.entries[place.at]
	if *old == e {
		return
	}
	if old.radius == radius && place.cell.holds(e) {
		*old = e // the item may have moved, but it's still in the same cube
		return
	}
	g.Remove(place)
	g.insert(keyOf(e, exponentOf(radius)), e)
}

// holds reports whether the position of e is in the cell. The caller must make sure that the radius
// of e belongs to the cell's level.
func (c *cell[T]) holds(e entry[T]) bool {
	return cubeNumber(float64(e.x)*c.inverse) == c.x &&
		cubeNumber(float64(e.y)*c.inverse) == c.y &&
		cubeNumber(float64(e.z)*c.inverse) == c.z
}

// insert adds an item that is in no cell to the cell with key k.
func (g *Grid[T]) insert(k key, e entry[T]) {
	c := g.cells[k]
	if c == nil {
		c = g.acquire(k)
	}
	e.place.cell = c
	e.place.at = len(c.entries)
	c.entries = append(c.entries, e)
	g.countItems(k.level, 1)
}

// acquire returns a cell for a key that has none yet. It reuses an unused cell if there is one.
func (g *Grid[T]) acquire(k key) *cell[T] {
	if g.cells == nil {
		g.cells = make(map[key]*cell[T])
	}
	if len(g.free) == 0 {
		g.free = append(g.free, new(cell[T]))
	}
	last := len(g.free) - 1
	c := g.free[last]
	g.free = g.free[:last]
	c.key = k
	c.inverse = inverseOf(k.level)
	g.cells[k] = c
	return c
}

// Remove removes an item if it is in the grid.
func (g *Grid[T]) Remove(place *Place[T]) {
	c := place.cell
	if c == nil {
		return
	}

	// Fill the gap with the last entry.
	last := len(c.entries) - 1
	c.entries[place.at] = c.entries[last]
	c.entries[place.at].place.at = place.at
	c.entries[last] = entry[T]{}
	c.entries = c.entries[:last]
	place.cell = nil
	g.countItems(c.level, -1)
	if last == 0 {
		delete(g.cells, c.key)
		g.free = append(g.free, c)
	}
}

// Somewhere reports whether the item is in the grid.
func (p *Place[T]) Somewhere() bool { return p.cell != nil }

// IsNear reports whether a point is near enough to the item.
func (p *Place[T]) IsNear(x, y, z float32) bool {
	if !p.Somewhere() || !isPoint(x, y, z) {
		return false
	}
	_, near := p.cell.entries[p.at].distance([3]float64{float64(x), float64(y), float64(z)})
	return near
}

// Near appends to found all items to which a point is near enough. If a coordinate is not finite,
// there are none.
func (g *Grid[T]) Near(found []Found[T], x, y, z float32) []Found[T] {
	if !isPoint(x, y, z) {
		return found
	}
	p := [3]float64{float64(x), float64(y), float64(z)}
	for i := range g.levels {
		found = g.nearOnLevel(found, &g.levels[i], p)
	}
	return found
}

// nearOnLevel is Near on one level. It examines the cube that p is in and those around it, except
// for cubes whose nearest point is an edge or more away from p, because no item in them can be near
// enough.
func (g *Grid[T]) nearOnLevel(found []Found[T], l *level, p [3]float64) []Found[T] {
	var base [3]int32 // number of the cube that p is in

	// For each axis, the squared distance from p to the cubes below, at and above p, in units of
	// the edge.
	var gaps [3][3]float64
	for axis := range 3 {
		at := p[axis] / l.edge
		base[axis] = cubeNumber(at)
		below := at - float64(base[axis])
		above := float64(base[axis]) + 1 - at
		gaps[axis] = [3]float64{below * below, 0, above * above}
	}
	for i, gapX := range gaps[0] {
		for j, gapY := range gaps[1] {
			for k, gapZ := range gaps[2] {
				if gapX+gapY+gapZ >= 1 {
					continue
				}
				near := key{base[0] + int32(i) - 1, base[1] + int32(j) - 1, base[2] + int32(k) - 1, l.exponent}
				if c := g.cells[near]; c != nil {
					found = appendNear(found, c.entries, p)
				}
			}
		}
	}
	return found
}

// appendNear appends the entries to which p is near enough.
func appendNear[T any](found []Found[T], entries []entry[T], p [3]float64) []Found[T] {
	for i := range entries {
		if far, near := entries[i].distance(p); near {
			found = append(found, Found[T]{Item: entries[i].place.Item, Far: far})
		}
	}
	return found
}

// distance returns the distance of a point, scaled as in Found, and whether the point is near
// enough.
func (e *entry[T]) distance(p [3]float64) (distance float32, near bool) {
	dx := float64(e.x) - p[0]
	dy := float64(e.y) - p[1]
	dz := float64(e.z) - p[2]
	square := dx*dx + dy*dy + dz*dz
	limit := float64(e.radius) * float64(e.radius)
	return float32(square / limit), square < limit
}

// isPoint reports whether three coordinates are finite.
func isPoint(x, y, z float32) bool { return x-x == 0 && y-y == 0 && z-z == 0 }

// exponentOf returns the exponent of the smallest power of two that is at least radius.
func exponentOf(radius float32) int32 {
	fraction, exponent := math.Frexp(float64(radius))
	if fraction == 0.5 {
		exponent--
	}
	return int32(exponent)
}

// inverseOf returns 1/edge for the edge with the given exponent.
func inverseOf(exponent int32) float64 { return math.Ldexp(1, -int(exponent)) }

// keyOf returns the key of an entry's cube on a level.
func keyOf[T any](e entry[T], exponent int32) key {
	inverse := inverseOf(exponent)
	return key{
		x:     cubeNumber(float64(e.x) * inverse),
		y:     cubeNumber(float64(e.y) * inverse),
		z:     cubeNumber(float64(e.z) * inverse),
		level: exponent,
	}
}

// cubeNumber returns the number of a cube along an axis, given a coordinate in units of the edge.
func cubeNumber(at float64) int32 {
	switch at = math.Floor(at); {
	case at > maxNumber:
		return maxNumber
	case at < -maxNumber:
		return -maxNumber
	}
	return int32(at)
}

// countItems adds n to the number of items of a level.
func (g *Grid[T]) countItems(exponent int32, n int) {
	i := slices.IndexFunc(g.levels, func(l level) bool { return l.exponent == exponent })
	if i < 0 {
		g.levels = append(g.levels, level{exponent, math.Ldexp(1, int(exponent)), n})
		return
	}
	g.levels[i].items += n
	if g.levels[i].items == 0 {
		g.levels = slices.Delete(g.levels, i, i+1)
	}
}
