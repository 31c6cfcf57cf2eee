package scenes

import "time"

const (
	bbrHighGain      = 2.885                  // gain of Startup: 2/ln 2
	bbrGrowth        = 1.25                   // factor by which the rate must grow for Startup to go on
	bbrFlatRounds    = 3                      // rounds without such growth that end Startup
	bbrInitialWindow = 10                     // packets
	bbrRounds        = 10                     // rounds over which the maximum rate is taken
	bbrMinRTTLife    = 10 * time.Second       // how long a minimum RTT counts before ProbeRTT
	bbrProbeTime     = 200 * time.Millisecond // minimum duration of ProbeRTT
	bbrMinWindow     = 4                      // minimum window in packets, and the window of ProbeRTT
)

// bbrGains are the pacing gains of the eight phases of ProbeBW.
var bbrGains = [8]float64{1.25, 0.75, 1, 1, 1, 1, 1, 1}

// A bbr is BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00) as in Linux. Its rate
// doesn't react to loss.
type bbr struct {
	rates   [bbrRounds]float64 // packets per second, by round
	round   int
	roundAt time.Duration // the round ends when a packet sent after this arrives

	minRTT   time.Duration // 0 = unknown
	minRTTAt time.Duration // when it was measured, or when ProbeRTT last ended

	// Startup.
	filled   bool    // Startup is over, since the path is full
	fullRate float64 // the rate when it last grew by bbrGrowth
	flat     int     // rounds since then

	drained  bool          // Drain is over too
	phase    int           // phase of ProbeBW
	phaseAt  time.Duration // when it began
	dropped  bool          // a packet was lost in this phase
	probing  time.Duration // when ProbeRTT ends; 0 = not in ProbeRTT
	inFlight int           // packets in flight after the latest ack
}

func newBBR() *bbr { return &bbr{} }

// rate returns the maximum rate of the last bbrRounds rounds, in packets per second.
func (b *bbr) rate() (best float64) {
	for _, r := range b.rates {
		best = max(best, r)
	}
	return best
}

func (b *bbr) acked(a ack) {
	now, rtt := a.now, a.rtt
	b.inFlight = a.inFlight
	expired := b.minRTT > 0 && now-b.minRTTAt > bbrMinRTTLife
	if b.minRTT == 0 || rtt <= b.minRTT || expired {
		b.minRTT = rtt
		b.minRTTAt = now
	}
	if expired && b.probing == 0 && b.filled {
		b.probing = now + max(bbrProbeTime, rtt)
	}
	ended := a.sent >= b.roundAt
	if ended {
		b.round++
		b.roundAt = now
		b.rates[b.round%bbrRounds] = 0
	}
	if rate := a.delivered / max(a.took, rtt).Seconds(); !a.limited || rate > b.rate() {
		b.rates[b.round%bbrRounds] = max(b.rates[b.round%bbrRounds], rate)
	}
	b.step(now, ended && !a.limited)
}

// step moves through Startup, Drain, ProbeBW and ProbeRTT.
func (b *bbr) step(now time.Duration, ended bool) {
	switch {
	case b.probing > 0:
		if now >= b.probing {
			b.probing = 0
			b.minRTTAt = now
		}
	case !b.filled:
		if ended {
			b.checkFull()
		}
	case !b.drained:
		b.drained = float64(b.inFlight) <= b.product()
		b.phaseAt = now
	case b.phaseOver(now):
		b.phase = (b.phase + 1) % len(bbrGains)
		b.phaseAt = now
		b.dropped = false
	}
}

// phaseOver is BBRIsNextCyclePhase of the draft.
func (b *bbr) phaseOver(now time.Duration) bool {
	whole := now-b.phaseAt > b.minRTT
	inFlight := float64(b.inFlight)
	switch gain := bbrGains[b.phase]; {
	case gain > 1:
		return whole && (b.dropped || inFlight >= gain*b.product())
	case gain < 1:
		return whole || inFlight <= b.product()
	}
	return whole
}

// checkFull ends Startup after bbrFlatRounds rounds in which the rate grew by less than bbrGrowth.
func (b *bbr) checkFull() {
	if r := b.rate(); r >= b.fullRate*bbrGrowth {
		b.fullRate = r
		b.flat = 0
		return
	}
	b.flat++
	b.filled = b.flat >= bbrFlatRounds
}

// product returns the bandwidth-delay product in packets.
func (b *bbr) product() float64 { return b.rate() * b.minRTT.Seconds() }

func (b *bbr) lost(time.Duration, time.Duration, int) { b.dropped = true }
func (b *bbr) spurious(time.Duration)                 {}
func (b *bbr) timeout(time.Duration)                  {}

// window returns the congestion window in packets.
func (b *bbr) window() float64 {
	switch {
	case b.minRTT == 0:
		return bbrInitialWindow
	case b.probing > 0:
		return bbrMinWindow
	case !b.filled || !b.drained:
		return max(bbrHighGain*b.product(), bbrInitialWindow)
	}
	return max(2*b.product(), bbrMinWindow)
}

// pace returns the pacing rate in packets per second.
func (b *bbr) pace(srtt time.Duration) float64 {
	switch {
	case b.minRTT == 0:
		return bbrHighGain * bbrInitialWindow / srtt.Seconds()
	case !b.filled:
		return max(bbrHighGain*b.rate(), bbrInitialWindow/srtt.Seconds())
	case !b.drained:
		return b.rate() / bbrHighGain
	case b.probing > 0:
		return b.rate()
	}
	return bbrGains[b.phase] * b.rate()
}
