package parity

import (
	"slices"

	"github.com/klauspost/reedsolomon"
)

var field reedsolomon.LowLevel

// factor returns what shard c of count is multiplied by in parity shard i.
func factor(count, i, c int) byte { return reedsolomon.Inv(byte(count+i) ^ byte(c)) }

// Make computes the parity of the first count shards into the shards behind them. A shard that is shorter than its parity counts as filled up with
// zeros.
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

// Restore fills in those of the first count shards that are empty; each must have the capacity of a whole one. It needs as many of the parity shards
// behind them, where nil stands for one that has not come, and overwrites those that it uses. It reports whether there were enough.
//
// It solves one equation for each missing shard, so the work grows with their number. reedsolomon.ReconstructData would invert a matrix of count by
// count, however few are missing, and a peer chooses count.
func Restore(shards [][]byte, count int) bool {
	var s system
	for c, shard := range shards[:count] {
		if len(shard) == 0 {
			s.missing = append(s.missing, c)
		}
	}
	came := slices.DeleteFunc(slices.Clone(shards[count:]), func(shard []byte) bool { return shard == nil })
	if len(came) < len(s.missing) {
		return false
	}
	s.take(shards, count)
	s.solve()
	for i, c := range s.missing {
		shards[c] = append(shards[c], s.equations[i].sum...)
	}
	return true
}

// system is a system of linear equations for missing shards.
type system struct {
	missing   []int
	equations []equation // one for each of missing
}

// equation says that the missing shards, each multiplied by its factor, add up to sum.
type equation struct {
	factors []byte
	sum     []byte
}

// take makes an equation of each of the first parity shards that came, as many as there are missing.
func (s *system) take(shards [][]byte, count int) {
	for i, sum := range shards[count:] {
		if sum == nil || len(s.equations) == len(s.missing) {
			continue
		}
		e := equation{sum: sum}
		for c, shard := range shards[:count] {
			if f := factor(count, i, c); len(shard) == 0 {
				e.factors = append(e.factors, f)
			} else {
				field.GalMulSliceXor(f, shard, sum)
			}
		}
		s.equations = append(s.equations, e)
	}
}

// solve turns each equation into one for its missing shard alone, by Gauss-Jordan elimination. It needs no pivoting: each square part of a Cauchy
// matrix has an inverse, so no factor by which it divides is zero.
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

func (e equation) multiply(factor byte) {
	field.GalMulSlice(factor, e.factors, e.factors)
	field.GalMulSlice(factor, e.sum, e.sum)
}

// add adds a multiple of another equation.
func (e equation) add(factor byte, other equation) {
	field.GalMulSliceXor(factor, other.factors, e.factors)
	field.GalMulSliceXor(factor, other.sum, e.sum)
}
