package netsim

import (
	"math/rand/v2"
	"time"
)

// dice draws the fate of packets. Each roll takes the same number of draws, whatever the configuration and the outcome,
// so that the nth packet meets the same fate when another setting changes.
type dice struct {
	rng  *rand.Rand
	bad  bool      // the state of Gilbert and Elliott's model
	last time.Time // when the last packet reached the lossy part
}

// roll holds the draws for one packet, each uniform in [0, 1).
type roll struct {
	loss, turn, burst, duplicate, reorder float64
	jitter                                [2]float64 // the packet's and its copy's
}

func newDice(seed, stream uint64) dice { return dice{rng: rand.New(rand.NewPCG(seed, stream))} }

func (d *dice) roll() roll {
	f := d.rng.Float64
	return roll{loss: f(), turn: f(), burst: f(), duplicate: f(), reorder: f(), jitter: [2]float64{f(), f()}}
}

// inBurst advances the model by the packet that arrives at time at, and reports whether the packet is lost.
func (d *dice) inBurst(b Burst, r roll, at time.Time) bool {
	faded := b.Idle > 0 && at.Sub(d.last) > b.Idle
	if d.last = at; d.bad && !faded {
		d.bad = r.turn >= b.Leave
	} else {
		d.bad = r.turn < b.Enter
	}
	return d.bad && r.burst < b.loss()
}

// jitter scales a draw to at most the configured jitter.
func (r roll) jitterOf(i int, most time.Duration) time.Duration {
	return time.Duration(r.jitter[i] * float64(most))
}
