package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// holeHold is the time between the first two large packets that probe a path that has
	// shrunk. It doubles up to maxHoleHold.
	minHoleWait = 10 * time.Second
	maxHoleWait = 10 * time.Minute

	// JumboPacket is the size in bytes of the largest packet. With the headers of IPv6 and
	// UDP it fills a frame of 9,000 bytes. Loopback and many networks in data centres carry
	// such frames.
	JumboPacket = 9000 - 40 - 8
	// jumboTime is how long a jumbo packet may occupy a bottleneck that is no faster than
	// our rate, because play waits for it. The rate must then be at least 1.8 MB/s. A link
	// with such frames is far faster, and our rate is only a share of it, unless a shaper
	// limits it.
	jumboTime = 5 * time.Millisecond
	// sharedJumboTime replaces jumboTime on a path that has delivered jumboBurst packets,
	// as many as fill a jumbo packet, within a millisecond. On such a path, our rate is
	// only a share of a far faster bottleneck. sharedJumboTime also bounds how long play
	// waits at a shaper that passes such bursts.
	//
	// Two hundred clients that load from one server over loopback get half a MB/s each, and
	// need two fifths of the packets.
	sharedJumboTime = 20 * time.Millisecond
	jumboBurst      = (JumboPacket + MaxPacket - 1) / MaxPacket
	// jumboWindow is the number of jumbo packets that the window must hold, so that acks
	// arrive one by one.
	jumboWindow = 4
	// jumboTries is the number of consecutive probes that must be lost to show that the
	// path takes no jumbo packets (RFC 8899, section 5.1.2: MAX_PROBES). jumboHold is the
	// time from then to the next search (section 5.1.1: PMTU_RAISE_TIMER).
	maxJumboProbes  = 3
	jumboSearchWait = 10 * time.Minute
	// jumboLoss is the share of recent jumbo packets whose loss ends their use. The path
	// then takes them only now and then, and the losses would slow down the pacer. Few
	// paths that are as fast lose as much of all sizes.
	maxJumboLoss = 0.25
)

// mtu decides how large a packet may be. It may be as large as QUIC has found, which the
// owner passes on. While larger packets are lost, SafePacket is the limit (black hole
// detection, RFC 8899, section 4.3). QUIC itself does not notice if the path shrinks.
type mtu struct {
	pathStart uint64 // number of the first packet on this path; the fates of earlier packets do not count
	blackHole recovery.BlackHole
	shrunkAt  uint64        // next packet number when the black hole was found; 0 = none
	retryAt   time.Duration // while shrunk: when to send the next large packet as a probe
	retryWait time.Duration // while shrunk: time from retry to another probe, if that is lost
	jumbo     jumbo         // packets larger than MaxPacket
}

// takesJumbo reports whether bulk may be sent in jumbo packets.
func (m *mtu) takesJumbo() bool { return m.shrunkAt == 0 && m.jumbo.usable() }

// limit returns the maximum size of a packet. allowed is the maximum that the owner allows.
func (m *mtu) limit(allowed int) int {
	if m.shrunkAt > 0 {
		return min(allowed, SafePacket)
	}
	return allowed
}

// check looks for a black hole. next is the number of the next packet. The cause may be an
// outage after which a small probe was the first packet to arrive, so a large probe is sent
// at once.
func (m *mtu) checkBlackHole(t time.Duration, next uint64) {
	m.jumbo.checkBlackHole(t, next)
	if m.blackHole.Found(next) && m.shrunkAt == 0 {
		m.shrunkAt = next
		m.retryAt = t
		m.retryWait = minHoleWait
	}
}

// probeDue reports whether it is time to probe whether the path takes large packets again.
func (m *mtu) probeDue(t time.Duration, allowed int) bool {
	return m.shrunkAt > 0 && t >= m.retryAt && allowed > SafePacket
}

// probeSent records that such a probe is sent.
func (m *mtu) probeSent(t time.Duration) {
	m.retryAt = t + m.retryWait
	m.retryWait = min(2*m.retryWait, maxHoleWait)
}

// acked records that packet n was acked. A large packet sent after the path had shrunk
// shows that the path takes large packets again.
func (m *mtu) acked(n uint64, r *record) {
	if n < m.pathStart {
		return
	}
	m.jumbo.acked(n, r)
	m.blackHole.Acked(n, r.large())
	if r.large() && n >= m.shrunkAt {
		m.shrunkAt = 0
	}
}

// lost records that packet n was declared lost. The loss of a jumbo packet says nothing
// about smaller ones.
func (m *mtu) lost(t time.Duration, n uint64, r *record) {
	switch {
	case n < m.pathStart:
	case r.jumbo():
		m.jumbo.lost(t, n)
	default:
		m.blackHole.Lost(n, r.large())
	}
}

// jumbo finds out whether the path takes jumbo packets. It is path MTU discovery (RFC 8899)
// with a single size, far above those for which QUIC probes. Jumbo packets carry bulk on
// fast paths. The zero value starts to search as soon as the path is fast enough.
type jumbo struct {
	blackHole  recovery.BlackHole
	fastEnough bool          // the path is fast enough; see weigh
	proven     bool          // a jumbo packet has arrived since the last black hole
	validFrom  uint64        // first packet after the last black hole; fates of earlier packets do not count
	probeEnd   uint64        // one above the number of the probe in flight; 0 = none
	lostProbes int           // consecutive probes that were lost
	nextProbe  time.Duration // when the next probe may be sent
	nextWait   time.Duration // time from the next black hole to the next probe; 0 = at once
	lossRate   float64       // share lost of about the last 16 jumbo packets
}

// weigh sets pays. rate is the rate of arrivals in bytes per second. window is in bytes.
// together is the number of packets, sent together, that arrived within a millisecond.
func (j *jumbo) checkSpeed(rate float64, window, together int) {
	limit := jumboTime
	if together >= jumboBurst {
		limit = sharedJumboTime
	}
	j.fastEnough = rate*limit.Seconds() >= JumboPacket && window >= jumboWindow*JumboPacket
}

// usable reports whether bulk may be sent in jumbo packets.
func (j *jumbo) usable() bool { return j.proven && j.fastEnough }

// probeDue reports whether it is time to send a probe.
func (j *jumbo) probeDue(t time.Duration) bool {
	return j.fastEnough && !j.proven && j.probeEnd == 0 && t >= j.nextProbe
}

// probeSent records that packet n is sent as a probe.
func (j *jumbo) probeSent(n uint64) { j.probeEnd = n + 1 }

// acked records that packet n was acked.
func (j *jumbo) acked(n uint64, r *record) {
	if n < j.validFrom {
		return
	}
	j.blackHole.Acked(n, r.jumbo())
	if r.jumbo() {
		j.proven = true
		j.probeEnd = 0
		j.lostProbes = 0
		j.lossRate -= j.lossRate / 16
	}
}

// lost records that jumbo packet n was declared lost.
func (j *jumbo) lost(t time.Duration, n uint64) {
	switch {
	case n < j.validFrom:
		return
	case n+1 != j.probeEnd:
		j.blackHole.Lost(n, true)
		j.lossRate += (1 - j.lossRate) / 16
		return
	}
	j.probeEnd = 0
	j.lostProbes++
	if j.lostProbes == maxJumboProbes {
		j.lostProbes = 0
		j.nextProbe = t + jumboSearchWait
	}
}

// check looks for a black hole: all recent jumbo packets were lost, or more than jumboLoss
// of them. next is the number of the next packet.
//
// After a black hole the path is probed again. The first probe is sent at once, because the
// cause may have been an outage. Each further time it is sent later, because each black
// hole costs a probe timeout.
func (j *jumbo) checkBlackHole(t time.Duration, next uint64) {
	if j.blackHole.Found(next) || j.lossRate > maxJumboLoss {
		j.proven = false
		j.validFrom = next
		j.nextProbe = t + j.nextWait
		j.lossRate = 0
		j.nextWait = min(max(2*j.nextWait, minHoleWait), maxHoleWait)
	}
}
