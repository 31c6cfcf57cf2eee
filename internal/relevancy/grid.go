package relevancy

import (
	"math"
	"slices"
)

// Grid is a spatial hash: space is cut into cubes, and only cubes that hold something take memory. An item lies in a cube whose
// edge is at least its radius, so that whoever is near enough to it stands in the same cube or in one beside it. Radii differ
// widely, so edges are powers of two, and each of them that is in use is a level of its own: a question looks into at most 27 cubes
// a level, and compares distances with what it finds there.
//
// The zero Grid is empty.
type Grid[T any] struct {
	cells  map[key]*cell[T] // that hold something
	free   []*cell[T]       // empty ones, which keep their memory for the next that is needed
	levels []level          // in use, in no order
}

// Place says where an item is: in a cell, at a position among its entries. At first an item is nowhere.
type Place[T any] struct {
	Item *T
	cell *cell[T] // nil = nowhere
	at   int
}

// cell is a cube that holds something.
type cell[T any] struct {
	key
	inverse float64 // of its edge
	entries []entry[T]
}

// key names a cube: which one it is along each axis, and the power of two that is its edge.
type key struct{ x, y, z, level int32 }

// entry is an item as a question reads it: all of a cell stand in a row.
type entry[T any] struct {
	x, y, z, radius float32
	place           *Place[T]
}

// level counts the items with one size of cubes.
type level struct {
	exponent int32
	edge     float64
	items    int
}

// Found is an item that is near enough.
type Found[T any] struct {
	Item *T
	Far  float32 // the square of the distance, as a part of the square of the radius: 0 to 1
}

// farthest bounds the number of a cube along an axis. What lies beyond is in the outermost one: too much may be there for a fast
// answer, but none is wrong.
const farthest = 1 << 30

// Set says that an item stands at a point, and is near for those who are less than radius away. Where a coordinate is not a finite number, or the
// radius not above 0, the item is nowhere.
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
	switch {
	case *old == e:
	case old.radius == radius && place.cell.holds(e):
		*old = e
	default:
		g.Remove(place)
		g.insert(keyOf(e, exponentOf(radius)), e)
	}
}

// holds reports whether an item stands in the cell, if its radius belongs there.
func (c *cell[T]) holds(e entry[T]) bool {
	return number(float64(e.x)*c.inverse) == c.x && number(float64(e.y)*c.inverse) == c.y && number(float64(e.z)*c.inverse) == c.z
}

// insert puts an item that is nowhere into its cell.
func (g *Grid[T]) insert(k key, e entry[T]) {
	c := g.cells[k]
	if c == nil {
		c = g.acquire(k)
	}
	e.place.cell, e.place.at = c, len(c.entries)
	c.entries = append(c.entries, e)
	g.count(k.level, 1)
}

// acquire makes a cell for a key that has none.
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
	c.key, c.inverse = k, inverseOf(k.level)
	g.cells[k] = c
	return c
}

// Remove takes an item out, if it is somewhere.
func (g *Grid[T]) Remove(place *Place[T]) {
	c := place.cell
	if c == nil {
		return
	}
	last := len(c.entries) - 1
	c.entries[place.at] = c.entries[last]
	c.entries[place.at].place.at = place.at
	c.entries[last] = entry[T]{}
	c.entries, place.cell = c.entries[:last], nil
	g.count(c.level, -1)
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
	_, near := p.cell.entries[p.at].far([3]float64{float64(x), float64(y), float64(z)})
	return near
}

// Near appends to found the items that a point is near enough to. One that is not a point is near to none.
func (g *Grid[T]) Near(found []Found[T], x, y, z float32) []Found[T] {
	if !isPoint(x, y, z) {
		return found
	}
	p := [3]float64{float64(x), float64(y), float64(z)}
	for i := range g.levels {
		found = g.nearAt(found, &g.levels[i], p)
	}
	return found
}

// nearAt looks into the cubes of one size. One whose nearest corner is an edge away or more holds nothing that is near enough.
func (g *Grid[T]) nearAt(found []Found[T], l *level, p [3]float64) []Found[T] {
	var base [3]int32
	var gaps [3][3]float64 // by axis and side: how far the cube's next face is, in edges, squared
	for axis := range 3 {
		at := p[axis] / l.edge
		base[axis] = number(at)
		below, above := at-float64(base[axis]), float64(base[axis])+1-at
		gaps[axis] = [3]float64{below * below, 0, above * above}
	}
	for i, gapX := range gaps[0] {
		for j, gapY := range gaps[1] {
			for k, gapZ := range gaps[2] {
				if gapX+gapY+gapZ >= 1 {
					continue
				}
				if c := g.cells[key{base[0] + int32(i) - 1, base[1] + int32(j) - 1, base[2] + int32(k) - 1, l.exponent}]; c != nil {
					found = appendNear(found, c.entries, p)
				}
			}
		}
	}
	return found
}

func appendNear[T any](found []Found[T], entries []entry[T], p [3]float64) []Found[T] {
	for i := range entries {
		if far, near := entries[i].far(p); near {
			found = append(found, Found[T]{Item: entries[i].place.Item, Far: far})
		}
	}
	return found
}

// far returns how far a point is, as in Found, and whether that is near enough.
func (e *entry[T]) far(p [3]float64) (far float32, near bool) {
	dx, dy, dz := float64(e.x)-p[0], float64(e.y)-p[1], float64(e.z)-p[2]
	square, limit := dx*dx+dy*dy+dz*dz, float64(e.radius)*float64(e.radius)
	return float32(square / limit), square < limit
}

// isPoint reports whether three coordinates are finite.
func isPoint(x, y, z float32) bool { return x-x == 0 && y-y == 0 && z-z == 0 }

// exponentOf returns the smallest power of two that is at least the radius.
func exponentOf(radius float32) int32 {
	fraction, exponent := math.Frexp(float64(radius))
	if fraction == 0.5 {
		exponent--
	}
	return int32(exponent)
}

// inverseOf returns how many edges a unit has.
func inverseOf(exponent int32) float64 { return math.Ldexp(1, -int(exponent)) }

func keyOf[T any](e entry[T], exponent int32) key {
	inverse := inverseOf(exponent)
	return key{number(float64(e.x) * inverse), number(float64(e.y) * inverse), number(float64(e.z) * inverse), exponent}
}

// number returns which cube along an axis holds a coordinate, that is measured in edges.
func number(at float64) int32 {
	switch at = math.Floor(at); {
	case at > farthest:
		return farthest
	case at < -farthest:
		return -farthest
	}
	return int32(at)
}

// count notes that a level has n items more.
func (g *Grid[T]) count(exponent int32, n int) {
	i := slices.IndexFunc(g.levels, func(l level) bool { return l.exponent == exponent })
	if i < 0 {
		g.levels = append(g.levels, level{exponent, math.Ldexp(1, int(exponent)), n})
		return
	}
	if g.levels[i].items += n; g.levels[i].items == 0 {
		g.levels = slices.Delete(g.levels, i, i+1)
	}
}
