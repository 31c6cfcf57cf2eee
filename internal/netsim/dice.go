package netsim

import (
	"math/rand/v2"
	"time"
)

// dice draws the random values for packets. Each roll takes the same number of draws, whatever the
// configuration and the outcome, so that the nth packet has the same fate if an unrelated setting
// changes.
type dice struct {
	rng  *rand.Rand
	bad  bool      // we are in a burst, which is the bad state of the Gilbert-Elliott model
	last time.Time // when the last packet reached the lossy part
}

// A roll holds the draws for one packet, each uniform in [0, 1).
type roll struct {
	loss, duplicate, reorder float64
	transition               float64    // decides whether a burst begins or ends with the packet
	burst                    float64    // decides whether the packet is lost if it's in a burst
	jitter                   [2]float64 // for the packet and for its copy
}

// newDice returns dice whose draws are determined by seed and stream.
func newDice(seed, stream uint64) dice { return dice{rng: rand.New(rand.NewPCG(seed, stream))} }

// roll draws for one packet.
func (d *dice) roll() roll {
	f := d.rng.Float64
	return roll{
		loss: f(), transition: f(), burst: f(), duplicate: f(), reorder: f(),
		jitter: [2]float64{f(), f()},
	}
}

// stepBurst advances the model by a packet that reaches the lossy part at the time at, and reports
// whether the packet is lost in a burst. A burst also ends after a pause of b.Idle, unless that is
// 0.
func (d *dice) stepBurst(b Burst, r roll, at time.Time) (lost bool) {
	faded := b.Idle > 0 && at.Sub(d.last) > b.Idle
	d.last = at
	if d.bad && !faded {
		d.bad = r.transition >= b.Leave
	} else {
		d.bad = r.transition < b.Enter
	}
	return d.bad && r.burst < b.loss()
}
