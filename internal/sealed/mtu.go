package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// holeHold is the first wait before a large packet that was lost is tried again; it doubles.
	holeHold    = 10 * time.Second
	maxHoleHold = 10 * time.Minute
)

// mtu decides how large a packet may be: as the owner says, for QUIC has found it, or, while larger ones vanish,
// SafePacket. QUIC never takes back what it found when the path shrinks.
type mtu struct {
	hole   recovery.BlackHole
	shrunk uint64        // one above the newest number when large packets were found to vanish; 0 = they pass
	retry  time.Duration // while shrunk: when a large packet is tried again
	hold   time.Duration // and how long after that another one, should it be lost
}

// limit returns the most bytes of a packet when the owner allows so many.
func (m *mtu) limit(most int) int {
	if m.shrunk > 0 {
		return min(most, SafePacket)
	}
	return most
}

// check looks whether large packets vanish, when next is the number of the next one. It may have been an outage, at whose
// end a small probe came through first: so a large packet is tried at once.
func (m *mtu) check(t time.Duration, next uint64) {
	if m.hole.Found() && m.shrunk == 0 {
		m.shrunk, m.retry, m.hold = next, t, holeHold
	}
}

// tries reports whether a large packet is to leave that shows whether the path takes it now.
func (m *mtu) tries(t time.Duration, most int) bool {
	return m.shrunk > 0 && t >= m.retry && most > SafePacket
}

// tried notes that such a packet leaves.
func (m *mtu) tried(t time.Duration) {
	m.retry = t + m.hold
	m.hold = min(2*m.hold, maxHoleHold)
}

// acked takes a packet that arrived.
func (m *mtu) acked(n uint64, r *record) {
	m.hole.Acked(n, r.large())
	if r.large() && n >= m.shrunk {
		m.shrunk = 0
	}
}

// lost takes a packet that counts as lost.
func (m *mtu) lost(n uint64, r *record) { m.hole.Lost(n, r.large()) }

// large reports whether a packet is larger than every path takes.
func (r *record) large() bool { return r.size > SafePacket+overheadUDP }
