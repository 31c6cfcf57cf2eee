package parity

import (
	"slices"

	"github.com/klauspost/reedsolomon"
)

var field reedsolomon.LowLevel

// factor returns the factor of shard c of count shards in parity shard i.
func factor(count, i, c int) byte { return reedsolomon.Inv(byte(count+i) ^ byte(c)) }

// Make computes the parity of the first count shards into the shards after them. A shard
// that is shorter than its parity counts as padded with zeros.
func Make(shards [][]byte, count int) {
	for i, sum := range shards[count:] {
		clear(sum)
		for c, shard := range shards[:count] {
			if len(shard) > 0 {
				field.GalMulSliceXor(factor(count, i, c), shard, sum)
			}
		}
	}
}

// A Set holds received parity shards.
type Set struct {
	Have   int          // number of shards received
	shards [Most][]byte // by index; nil = not received
}

// Has reports whether parity shard i was added.
func (s *Set) Has(i int) bool { return s.shards[i] != nil }

// Add adds a copy of parity shard i, which must not have been added before.
func (s *Set) Add(i int, shard []byte) {
	s.shards[i] = slices.Clone(shard)
	s.Have++
}

// Restore fills in those of shards that are empty. Each of these must have the capacity of
// a complete shard. shards[i] contains the bytes from off to end of shard i.
//
// The set must contain at least as many parity shards as shards are empty. Restore
// overwrites the bytes from off to end of the parity shards that it uses.
//
// It solves one equation for each missing shard, so the work grows with their number.
// reedsolomon.ReconstructData would invert a matrix with as many rows as there are shards,
// however few are missing, and a peer chooses that number.
func (s *Set) Restore(shards [][]byte, off, end int) {
	var y system
	for c, shard := range shards {
		if len(shard) == 0 {
			y.missing = append(y.missing, c)
		}
	}
	for i, sum := range s.shards {
		if sum != nil && len(y.equations) < len(y.missing) {
			y.take(shards, i, sum[off:end])
		}
	}
	y.solve()
	for i, c := range y.missing {
		shards[c] = append(shards[c], y.equations[i].sum...)
	}
}

// A system is a system of linear equations for missing shards.
type system struct {
	missing   []int      // indexes of the missing shards
	equations []equation // one for each missing shard
}

// An equation says that the missing shards, each multiplied by its factor, add up to sum.
type equation struct {
	factors []byte
	sum     []byte
}

// take adds an equation for parity shard i, whose bytes are sum.
func (s *system) take(shards [][]byte, i int, sum []byte) {
	e := equation{sum: sum}
	for c, shard := range shards {
		f := factor(len(shards), i, c)
		if len(shard) == 0 {
			e.factors = append(e.factors, f)
		} else {
			field.GalMulSliceXor(f, shard, sum)
		}
	}
	s.equations = append(s.equations, e)
}

// solve turns each equation into one for its missing shard alone, by Gauss-Jordan
// elimination. It needs no pivoting. Every square submatrix of a Cauchy matrix has an
// inverse, so solve never divides by zero.
func (s *system) solve() {
	for i, e := range s.equations {
		e.multiply(reedsolomon.Inv(e.factors[i]))
		for k, other := range s.equations {
			if k != i {
				other.add(other.factors[i], e)
			}
		}
	}
}

// multiply multiplies the equation by a factor.
func (e equation) multiply(factor byte) {
	field.GalMulSlice(factor, e.factors, e.factors)
	field.GalMulSlice(factor, e.sum, e.sum)
}

// add adds a multiple of another equation.
func (e equation) add(factor byte, other equation) {
	field.GalMulSliceXor(factor, other.factors, e.factors)
	field.GalMulSliceXor(factor, other.sum, e.sum)
}
