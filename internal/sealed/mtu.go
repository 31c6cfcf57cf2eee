package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// minHoleWait is the time between the first two probes for a size at which the path has become
	// a black hole. It doubles with each further probe, up to maxHoleWait, which is the
	// PMTU_RAISE_TIMER of RFC 8899, section 5.1.1.
	minHoleWait = 10 * time.Second
	maxHoleWait = 10 * time.Minute
)

// A pathMTU keeps track of the maximum packet size on the path.
//
// Usually it's the size that QUIC has confirmed, which the owner passes on. But QUIC doesn't
// notice if the path shrinks, so we watch for a black hole ourselves (RFC 8899, section 4.3).
// While larger packets are lost, only probes exceed SafePacket, to find out when larger packets
// get through again.
type pathMTU struct {
	pathStart uint64 // first packet on this path; the fates of earlier ones don't count
	blackHole recovery.BlackHole
	jumbo     jumboProber // for packets larger than FullPacket

	// The black hole. The other fields are valid while shrunk is true.
	shrunk    bool          // only packets of up to SafePacket bytes get through
	shrunkAt  uint64        // the next packet number when that was detected
	retryAt   time.Duration // when to send the next probe
	retryWait time.Duration // from the next probe to the one after it, if it's lost
}

// limit returns the maximum packet size. allowed is the largest size that the owner allows.
func (m *pathMTU) limit(allowed int) int {
	if m.shrunk {
		return min(allowed, SafePacket)
	}
	return allowed
}

// takesJumbo reports whether bulk may be sent in jumbo packets.
func (m *pathMTU) takesJumbo() bool { return !m.shrunk && m.jumbo.usable() }

// checkBlackHole looks for a black hole. next is the number of the next packet.
func (m *pathMTU) checkBlackHole(t time.Duration, next uint64) {
	m.jumbo.checkBlackHole(t, next)
	if m.blackHole.Detect(next) && !m.shrunk {
		// Probe at once, since it may just have been an outage after which a small packet
		// happened to arrive first.
		m.shrunk = true
		m.shrunkAt = next
		m.retryAt = t
		m.retryWait = minHoleWait
	}
}

// probeAt returns when to probe whether the path takes large packets again. ok is false if it
// hasn't shrunk.
func (m *pathMTU) probeAt() (at time.Duration, ok bool) { return m.retryAt, m.shrunk }

// probeDue reports whether it's time for a probe.
func (m *pathMTU) probeDue(t time.Duration, allowed int) bool {
	return m.shrunk && t >= m.retryAt && allowed > SafePacket
}

// probeSent is called when a large packet is sent as a probe.
func (m *pathMTU) probeSent(t time.Duration) {
	m.retryAt = t + m.retryWait
	m.retryWait = min(2*m.retryWait, maxHoleWait)
}

// acked is called when packet n is acked.
func (m *pathMTU) acked(n uint64, r *record) {
	if n < m.pathStart {
		return
	}
	m.jumbo.acked(n, r)
	m.blackHole.Acked(n, r.large())
	if r.large() && n >= m.shrunkAt {
		m.shrunk = false // large packets get through again
	}
}

// lost is called when packet n is declared lost.
func (m *pathMTU) lost(t time.Duration, n uint64, r *record) {
	if n < m.pathStart {
		return
	}
	if r.jumbo() {
		m.jumbo.lost(t, n) // which says nothing about smaller packets
	} else {
		m.blackHole.Lost(n, r.large())
	}
}
