// Package parity makes parity shards for the slices or bunches in flight at the end of a
// transfer, and restores lost ones from them. Without them, a loss there would cost a round
// trip in which nothing else is left to send. The package also decides how many parity
// shards are worth sending.
//
// The code is Reed-Solomon over GF(2^8) with the polynomial 0x11d and a Cauchy matrix.
// Parity shard i of count shards is the sum of all shards, where shard c is multiplied by
// the inverse of (count+i) xor c.
package parity

import "math"

// Most is the maximum number of parity shards for one group. If more were needed, another
// round trip would be cheaper.
const Most = 16

// missRate is the acceptable share of chunks or groups of entries with too little parity.
const missRate = 0.001

// Count returns the number of parity shards to send with the given number of shards. Each
// shard, parity or not, is lost with the probability loss.
//
// The result is the smallest number that is too small with a probability below missRate (a
// quantile of the binomial distribution), but at most Most.
func Count(shards int, loss float64) int {
	for parity := range Most {
		if tooFew(shards+parity, parity, loss) < missRate {
			return parity
		}
	}
	return Most
}

// tooFew returns the probability that more than parity of n shards are lost.
func tooFew(n, parity int, loss float64) float64 {
	term := math.Pow(1-loss, float64(n)) // the probability that exactly k are lost
	sum := term
	for k := range parity {
		term *= float64(n-k) / float64(k+1) * loss / (1 - loss)
		sum += term
	}
	return 1 - sum
}

// Loss corrects a measured loss rate that is based on few packets. It adds priorWeight
// packets with a loss rate of priorLoss. The zero Loss has counted no packets.
type Loss struct{ decided int } // packets counted, at most priorMemory

const (
	priorLoss   = 0.02
	priorWeight = 64 // packets
	// Packets over which the carrier's controller measures losses (memory in
	// internal/pace).
	priorMemory = 256
)

// Note counts a packet that the carrier reported as arrived or lost.
func (l *Loss) Note() { l.decided = min(l.decided+1, priorMemory) }

// Estimate returns the probable loss rate. measured is the loss rate of the counted
// packets. The fewer were counted, the closer the estimate is to priorLoss.
func (l *Loss) Estimate(measured float64) float64 {
	n := float64(l.decided)
	return (measured*n + priorLoss*priorWeight) / (n + priorWeight)
}
