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
	// faster than our rate, because play has to wait for the packet. This takes a rate of at
	// least 1.8 MB/s. Links that carry such frames are far faster, and our rate is only a share
	// of the link's, unless a shaper limits it.
	jumboTime = 5 * time.Millisecond
	// sharedJumboTime is used instead of jumboTime once the path has delivered jumboBurst
	// packets within a millisecond. These packets have as many bytes as a jumbo packet, so the
	// bottleneck is far faster than our rate. If the bottleneck is a shaper that passes such
	// bursts, play waits for sharedJumboTime at most.
	//
	// When 200 clients load from one server over loopback, each gets 0.5 MB/s. Jumbo packets
	// reduce the number of packets to 40 %.
	sharedJumboTime = 20 * time.Millisecond
	jumboBurst      = (JumboPacket + FullPacket - 1) / FullPacket
	// The window must have room for jumboWindow jumbo packets, so that acks arrive one by one.
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
	jumboLossWeight = 1. / 16
)

// A jumboProber finds out whether the path takes jumbo packets, which carry bulk on fast
// paths. It does path MTU discovery (RFC 8899) for a single size, which is far larger than the
// sizes that QUIC probes.
//
// The zero value starts to probe as soon as the path is fast enough.
type jumboProber struct {
	fastEnough bool // jumbo packets won't keep play waiting for long; set by checkSpeed
	proven     bool // a jumbo packet has arrived since the last black hole

	// Probing.
	probing    bool          // a probe is in flight
	probe      uint64        // number of the last probe, even if an earlier one is acked meanwhile
	lostProbes int           // consecutive probes that were lost
	nextProbe  time.Duration // no probe before then

	// Watching for a black hole.
	blackHole recovery.BlackHole
	lossRate  float64       // moving average; lost probes don't count
	validFrom uint64        // first packet after the last black hole; earlier fates don't count
	nextWait  time.Duration // from the next black hole to a probe; 0 at first
}

// checkSpeed updates fastEnough. rate is the rate of arrivals in bytes per second, and
// window is in bytes. together is the number of packets sent together that arrived
// within a millisecond.
func (j *jumboProber) checkSpeed(rate float64, window, together int) {
	limit := jumboTime
	if together >= jumboBurst {
		limit = sharedJumboTime
	}
	j.fastEnough = rate*limit.Seconds() >= JumboPacket && window >= jumboWindow*JumboPacket
}

// usable reports whether bulk may be sent in jumbo packets.
func (j *jumboProber) usable() bool { return j.proven && j.fastEnough }

// probeDue reports whether it's time to send a probe.
func (j *jumboProber) probeDue(t time.Duration) bool {
	return j.fastEnough && !j.proven && !j.probing && t >= j.nextProbe
}

// probeSent is called when packet n is sent as a probe.
func (j *jumboProber) probeSent(n uint64) {
	j.probing = true
	j.probe = n
}

// acked is called when packet n is acked, whatever its size.
func (j *jumboProber) acked(n uint64, r *record) {
	if n < j.validFrom {
		return
	}
	j.blackHole.Acked(n, r.jumbo())
	if r.jumbo() {
		j.proven = true
		j.probing = false
		j.lostProbes = 0
		j.lossRate -= j.lossRate * jumboLossWeight
	}
}

// lost is called when jumbo packet n is declared lost.
func (j *jumboProber) lost(t time.Duration, n uint64) {
	switch {
	case n < j.validFrom:
	case n == j.probe && !j.probing:
		// An earlier probe was acked late, so jumbo packets do get through.
	case n == j.probe:
		j.probing = false
		j.lostProbes++
		if j.lostProbes == maxJumboProbes {
			j.lostProbes = 0
			j.nextProbe = t + jumboSearchWait
		}
	default:
		j.blackHole.Lost(n, true)
		j.lossRate += (1 - j.lossRate) * jumboLossWeight
	}
}

// checkBlackHole stops the use of jumbo packets if all recent ones were lost, or if their loss
// rate exceeds maxJumboLoss. next is the number of the next packet.
//
// After the first black hole we probe again at once, since it may just have been an outage.
// After each further black hole we wait longer, because each costs a probe timeout.
func (j *jumboProber) checkBlackHole(t time.Duration, next uint64) {
	if j.blackHole.Detect(next) || j.lossRate > maxJumboLoss {
		j.proven = false
		j.validFrom = next
		j.nextProbe = t + j.nextWait
		j.nextWait = min(max(2*j.nextWait, minHoleWait), maxHoleWait)
		j.lossRate = 0
	}
}
