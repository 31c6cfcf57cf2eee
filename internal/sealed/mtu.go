package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// minHoleWait is how long we wait between the first two large packets that probe a path
	// that has shrunk. The wait doubles up to maxHoleWait.
	minHoleWait = 10 * time.Second
	maxHoleWait = 10 * time.Minute
)

// An mtu decides how large a packet may be.
//
// Usually that's whatever QUIC has found the path to take, which the owner passes on. But QUIC
// doesn't notice if the path shrinks, so we watch for a black hole ourselves (RFC 8899, section
// 4.3). As long as larger packets are lost, SafePacket is the limit, except for probes that
// find out if larger ones get through again.
type mtu struct {
	pathStart uint64 // first packet on this path; the fates of earlier ones don't count
	blackHole recovery.BlackHole
	shrunkAt  uint64        // the next packet number when the black hole was found; 0 if there is none
	retryAt   time.Duration // when to send the next probe, if shrunkAt is set
	retryWait time.Duration // how long to wait for another one if that is lost
	jumbo     jumbo         // packets larger than MaxPacket
}

// limit returns how large a packet may be. allowed is the largest size that the owner allows.
func (m *mtu) limit(allowed int) int {
	if m.shrunkAt > 0 {
		return min(allowed, SafePacket)
	}
	return allowed
}

// takesJumbo reports whether bulk may be sent in jumbo packets.
func (m *mtu) takesJumbo() bool { return m.shrunkAt == 0 && m.jumbo.usable() }

// checkBlackHole looks for a black hole. next is the number of the next packet.
func (m *mtu) checkBlackHole(t time.Duration, next uint64) {
	m.jumbo.checkBlackHole(t, next)
	if m.blackHole.Found(next) && m.shrunkAt == 0 {
		// Probe at once, since it may just have been an outage, after which a small probe
		// happened to be the first packet to arrive.
		m.shrunkAt = next
		m.retryAt = t
		m.retryWait = minHoleWait
	}
}

// probeDue reports whether it's time to find out if the path takes large packets again.
func (m *mtu) probeDue(t time.Duration, allowed int) bool {
	return m.shrunkAt > 0 && t >= m.retryAt && allowed > SafePacket
}

// probeSent is called when such a probe is sent.
func (m *mtu) probeSent(t time.Duration) {
	m.retryAt = t + m.retryWait
	m.retryWait = min(2*m.retryWait, maxHoleWait)
}

// acked is called when packet n is acked.
func (m *mtu) acked(n uint64, r *record) {
	if n < m.pathStart {
		return
	}
	m.jumbo.acked(n, r)
	m.blackHole.Acked(n, r.large())
	if r.large() && n >= m.shrunkAt {
		m.shrunkAt = 0 // large packets get through again
	}
}

// lost is called when packet n is declared lost.
func (m *mtu) lost(t time.Duration, n uint64, r *record) {
	switch {
	case n < m.pathStart:
	case r.jumbo():
		// This says nothing about packets of other sizes.
		m.jumbo.lost(t, n)
	default:
		m.blackHole.Lost(n, r.large())
	}
}
