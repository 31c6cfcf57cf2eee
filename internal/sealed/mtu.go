package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// holeHold is the time between the first two large packets that are sent to see whether the path takes them again; it doubles,
	// up to maxHoleHold.
	holeHold    = 10 * time.Second
	maxHoleHold = 10 * time.Minute
)

// mtu decides how large a packet may be: as large as QUIC has found, which the owner passes on, or SafePacket while larger ones vanish
// (black hole detection, RFC 8899, section 4.3). QUIC itself does not notice when the path shrinks.
type mtu struct {
	hole   recovery.BlackHole
	shrunk uint64        // next packet number when large packets were found to vanish; 0 = they pass
	retry  time.Duration // while shrunk: when to send the next large packet
	hold   time.Duration // while shrunk: how long after that to send another, if it is lost
}

// limit returns the most bytes of a packet, of those that the owner allows.
func (m *mtu) limit(most int) int {
	if m.shrunk > 0 {
		return min(most, SafePacket)
	}
	return most
}

// check looks whether large packets vanish; next is the number of the next packet. The cause may be an outage, at whose end a small
// probe got through first. So a large packet is sent at once to see.
func (m *mtu) check(t time.Duration, next uint64) {
	if m.hole.Found() && m.shrunk == 0 {
		m.shrunk, m.retry, m.hold = next, t, holeHold
	}
}

// probeDue reports whether it is time to send a large packet, to see whether the path takes it again.
func (m *mtu) probeDue(t time.Duration, most int) bool {
	return m.shrunk > 0 && t >= m.retry && most > SafePacket
}

// probeSent notes that such a packet leaves.
func (m *mtu) probeSent(t time.Duration) {
	m.retry = t + m.hold
	m.hold = min(2*m.hold, maxHoleHold)
}

// acked notes that a packet arrived: a large one that left after the path had shrunk shows that it takes them again.
func (m *mtu) acked(n uint64, r *record) {
	m.hole.Acked(n, r.large())
	if r.large() && n >= m.shrunk {
		m.shrunk = 0
	}
}

// lost notes that a packet counts as lost.
func (m *mtu) lost(n uint64, r *record) { m.hole.Lost(n, r.large()) }

// large reports whether a packet is larger than SafePacket, which every path takes.
func (r *record) large() bool { return r.size > SafePacket+overheadUDP }
