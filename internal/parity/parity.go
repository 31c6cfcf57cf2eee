// Package parity makes parity shards for the slices or bunches in flight at the end of a
// transfer, and restores lost ones from them: a loss there would cost a round trip in which
// nothing else is left to send. It also decides how many parity shards are worth sending.
//
// The code is Reed-Solomon over GF(2^8) with the polynomial 0x11d and a Cauchy
// matrix: parity shard i of count shards is the sum of all of them, shard c
// multiplied by the inverse of (count+i) xor c.
package parity

import "math"

// Most is the most parity shards for one group. If more were needed, another
// round trip would be cheaper.
const Most = 16

// missRate is the share of chunks, or groups of entries, for which there may be too little parity.
const missRate = 0.001

// Count returns how many parity shards a number of shards needs if each shard, parity or
// not, is lost with the probability loss: the fewest that are too few with a probability
// below missRate (a quantile of the binomial distribution), but at most Most.
func Count(shards int, loss float64) int {
	for parity := range Most {
		if tooFew(shards+parity, parity, loss) < missRate {
			return parity
		}
	}
	return Most
}

// tooFew returns the probability that more than most of n shards are lost.
func tooFew(n, most int, loss float64) float64 {
	term := math.Pow(1-loss, float64(n)) // the probability that exactly k are lost
	sum := term
	for k := range most {
		term *= float64(n-k) / float64(k+1) * loss / (1 - loss)
		sum += term
	}
	return 1 - sum
}

// Loss corrects the measured loss rate while it is based on few packets: it adds
// priorWeight packets with a loss rate of priorLoss. The zero value has counted none.
type Loss struct{ decided int } // packets, at most priorMemory

const (
	priorLoss   = 0.02
	priorWeight = 64  // packets
	priorMemory = 256 // packets over which the carrier's controller measures losses (memory in internal/pace)
)

// Note counts a packet whose fate was reported.
func (l *Loss) Note() { l.decided = min(l.decided+1, priorMemory) }

// Estimate returns the probable loss rate. measured is the loss rate of the
// counted packets; the fewer these are, the closer the estimate is to priorLoss.
func (l *Loss) Estimate(measured float64) float64 {
	n := float64(l.decided)
	return (measured*n + priorLoss*priorWeight) / (n + priorWeight)
}
