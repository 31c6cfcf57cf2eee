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
const missRate = 0.003

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

// Before anything was measured, we expect one packet in a hundred to be lost. This counts as much
// as a measurement of priorPackets packets, which is the length of a sealed carrier's train.
const (
	priorLoss    = 0.01
	priorPackets = 16
)

// Loss returns how much loss to expect on a path that has lost the given share of that many
// packets.
//
// It's the mean of what the packets and priorLoss suggest, plus one standard deviation (of the beta
// distribution), because too little parity costs a round trip and too much only some bytes. With
// few packets that is well above the measured share, and with hundreds just above it.
func Loss(share float64, packets int) float64 {
	n := float64(packets + priorPackets)
	mean := (share*float64(packets) + priorLoss*priorPackets) / n
	return mean + math.Sqrt(mean*(1-mean)/(n+1))
}
