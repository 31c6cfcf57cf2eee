package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// JumboPacket is the size in bytes of the largest packet. With the headers of IPv6 and UDP
	// it fills a frame of 9,000 bytes, which loopback and many data center networks carry.
	JumboPacket = 9000 - 40 - 8

	// jumboTime is the maximum time for which a jumbo packet may occupy a bottleneck that is no
	// faster than our rate, because play (the game's own traffic) has to wait for the packet. It
	// requires a rate of at least 1.8 MB/s. Links that carry such frames are far faster, and our
	// rate is only a share of the link's, unless a shaper limits it.
	jumboTime = 5 * time.Millisecond
	// sharedJumboTime is used instead of jumboTime once the path has delivered jumboBurst
	// packets, which have as many bytes as a jumbo packet, within a millisecond. The bottleneck
	// is then far faster than our rate, presumably because many share it. If it's a shaper that
	// passes such bursts instead, play waits for at most sharedJumboTime.
	//
	// It requires a rate of at least 0.45 MB/s, because each of 200 clients that load from one
	// server over loopback gets 0.5 MB/s, and jumbo packets reduce the server's packets by 60 %.
	sharedJumboTime = 20 * time.Millisecond
	jumboBurst      = (JumboPacket + FullPacket - 1) / FullPacket
	// jumboWindow is the number of jumbo packets for which the window must have room, so that
	// acks are spread over the round trip.
	jumboWindow = 4

	// After maxJumboProbes consecutive lost probes, we conclude that the path doesn't carry
	// jumbo packets (RFC 8899, section 5.1.2: MAX_PROBES). We try again after jumboSearchWait
	// (section 5.1.1: PMTU_RAISE_TIMER).
	maxJumboProbes  = 3
	jumboSearchWait = 10 * time.Minute

	// maxJumboLoss is the loss rate of recent jumbo packets above which we stop using them. A
	// path with such losses carries jumbo packets only some of the time, and the losses would
	// slow down the pacer. Few paths of this speed lose as many packets of all sizes.
	maxJumboLoss = 0.25
	// jumboLossWeight is the weight of one jumbo packet in the moving average of the loss rate.
	// With a sixteenth, it takes five losses in a row to exceed maxJumboLoss.
	jumboLossWeight = 1. / 16
)

// A jumboState is what a jumboProber knows about the path.
type jumboState uint8

const (
	jumboUnproven jumboState = iota // a probe is sent once nextProbe is due and the path is fast
	jumboProbing                    // a probe is in flight
	jumboProven                     // a jumbo packet was acked after the last black hole
)

// A jumboProber finds out whether the path carries jumbo packets, which are used for bulk (the
// traffic of transfers) on fast paths. It does path MTU discovery (RFC 8899) for a single size,
// which is far larger than the sizes that QUIC probes.
//
// The zero value starts to probe as soon as the path is fast enough.
type jumboProber struct {
	state      jumboState
	fastEnough bool // play doesn't have to wait long for a jumbo packet; set by checkSpeed

	// Probing.
	probe      uint64        // number of the latest probe, in any state
	lostProbes int           // consecutive probes that were lost
	nextProbe  time.Duration // when the next probe may be sent

	// Watching for a black hole.
	blackHole recovery.BlackHole
	validFrom uint64        // first packet after the last black hole; earlier fates don't count
	lossRate  float64       // moving average, without probes
	holeWait  time.Duration // from the next black hole to a probe
}

// checkSpeed updates fastEnough. rate is the rate of arrivals in bytes per second, and window
// is in bytes. together is the number of packets sent together that arrived within a
// millisecond.
func (j *jumboProber) checkSpeed(rate float64, window, together int) {
	limit := jumboTime
	if together >= jumboBurst {
		limit = sharedJumboTime
	}
	j.fastEnough = rate*limit.Seconds() >= JumboPacket && window >= jumboWindow*JumboPacket
}

// usable reports whether bulk may be sent in jumbo packets.
func (j *jumboProber) usable() bool { return j.state == jumboProven && j.fastEnough }

// probeDue reports whether it's time to send a probe.
func (j *jumboProber) probeDue(t time.Duration) bool {
	return j.state == jumboUnproven && j.fastEnough && t >= j.nextProbe
}

// probeSent is called when packet n is sent as a probe.
func (j *jumboProber) probeSent(n uint64) {
	j.state = jumboProbing
	j.probe = n
}

// acked is called when packet n is acked, whatever its size.
func (j *jumboProber) acked(n uint64, r *record) {
	if n < j.validFrom {
		return
	}
	j.blackHole.Acked(n, r.jumbo())
	if r.jumbo() {
		j.state = jumboProven
		j.lostProbes = 0
		j.lossRate -= j.lossRate * jumboLossWeight
	}
}

// lost is called when jumbo packet n is declared lost.
func (j *jumboProber) lost(t time.Duration, n uint64) {
	if n < j.validFrom {
		return
	}
	if n == j.probe {
		j.probeLost(t)
		return
	}
	j.blackHole.Lost(n, true)
	j.lossRate += (1 - j.lossRate) * jumboLossWeight
}

// probeLost is called when the latest probe is declared lost. If an earlier probe was acked late
// in the meantime, the path does carry jumbo packets.
func (j *jumboProber) probeLost(t time.Duration) {
	if j.state == jumboProven {
		return
	}
	j.state = jumboUnproven
	j.lostProbes++
	if j.lostProbes == maxJumboProbes {
		j.lostProbes = 0
		j.nextProbe = t + jumboSearchWait
	}
}

// checkBlackHole stops the use of jumbo packets if all recent ones were lost, or if their loss
// rate exceeds maxJumboLoss. next is the number of the next packet.
//
// After the first black hole we probe again at once, since it may just have been an outage.
// After each further one we wait longer, from minHoleWait up to maxHoleWait, because each costs
// a probe timeout. The wait never gets shorter again on this path, because a path that has been
// a black hole twice probably alternates between two routes.
func (j *jumboProber) checkBlackHole(t time.Duration, next uint64) {
	if j.blackHole.Detect(next) || j.lossRate > maxJumboLoss {
		j.state = jumboUnproven
		j.validFrom = next
		j.nextProbe = t + j.holeWait
		j.holeWait = min(max(2*j.holeWait, minHoleWait), maxHoleWait)
		j.lossRate = 0
	}
}
