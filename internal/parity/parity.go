// Package parity says how many repair slices, parity shards, what is in flight at the end of a transfer needs, and makes them. A loss there would
// cost a round trip in which nothing else is left to send.
//
// The code is Reed-Solomon over GF(2^8) with the polynomial 0x11d and a Cauchy matrix: shard i of the parity of count shards is the sum of all of
// them, shard c multiplied by the inverse of (count+i) xor c.
package parity

import "math"

const (
	// Most is how much parity there may be for what belongs together; where it would need more, another round trip is cheaper.
	Most = 16
	// MostShards is how many shards parity may be made for: the work grows with that of the shards and of what is lost.
	MostShards = 64
)

// missRate is the share of chunks, or messages, whose parity may be too little.
const missRate = 0.001

// Count returns how much parity shards need so that it is too little with at most the probability missRate, when each of both is lost with the
// probability loss: a quantile of the binomial distribution.
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

// Estimate returns the share of packets that are lost, as far as measured, which is of the packets that were counted, may be believed.
func (l *Loss) Estimate(measured float64) float64 {
	n := float64(l.decided)
	return (measured*n + priorLoss*priorWeight) / (n + priorWeight)
}
