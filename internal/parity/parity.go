// Package parity makes parity shards for the slices or bunches that are in flight at the end of a transfer, and restores lost ones from them: a loss
// there would cost a round trip in which nothing else is left to send. It also says how many parity shards are worth sending.
//
// The code is Reed-Solomon over GF(2^8) with the polynomial 0x11d and a Cauchy matrix: shard i of the parity of count shards is the sum of all of
// them, shard c multiplied by the inverse of (count+i) xor c.
package parity

import "math"

// Most is how much parity there may be for what belongs together; where it would need more, another round trip is cheaper.
const Most = 16

// missRate is the share of chunks, or groups of entries, whose parity may be too little.
const missRate = 0.001

// Count returns how many parity shards a number of shards needs when each shard, parity or not, is lost with the probability loss: the fewest that
// are too few with a probability below missRate (a quantile of the binomial distribution), or Most when it needs more.
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
	term := math.Pow(1-loss, float64(n)) // the probability that k are lost
	sum := term
	for k := range most {
		term *= float64(n-k) / float64(k+1) * loss / (1 - loss)
		sum += term
	}
	return 1 - sum
}

// Loss corrects the measured share of losses while it is of few packets: it adds priorWeight packets with a share of priorLoss. The zero value has
// seen none.
type Loss struct{ decided int } // packets, at most priorMemory

const (
	priorLoss   = 0.02
	priorWeight = 64  // packets
	priorMemory = 256 // packets over which the carrier's controller measures losses (memory in internal/pace)
)

// Note counts a packet whose fate was told.
func (l *Loss) Note() { l.decided = min(l.decided+1, priorMemory) }

// Estimate returns the share of packets that will probably be lost. measured is the share that was lost of those noted; the fewer these are, the
// nearer is the estimate to priorLoss.
func (l *Loss) Estimate(measured float64) float64 {
	n := float64(l.decided)
	return (measured*n + priorLoss*priorWeight) / (n + priorWeight)
}
