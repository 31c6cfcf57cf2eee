package link

import "time"

const (
	// SafeDatagram is the maximum size of a datagram that every path carries, in bytes. It just
	// fits into a QUIC packet of 1,200 bytes, which every path must carry (RFC 9000, section
	// 14). quic-go accepts this size even after a rebind.
	SafeDatagram = 1163

	// maxDatagram is the size of our buffers, and so the maximum size of any datagram. It is
	// enough for quic-go, whose packets are never larger than 1,452 bytes.
	maxDatagram = 1500

	// minDatagram is the datagram size that a path must carry. A bunch entry and its headers
	// fit into it.
	minDatagram = SafeDatagram

	// refusalHold is how long we trust a refusal by the carrier although its Path goes on to
	// report a larger size.
	refusalHold = 10 * time.Second

	// After finding a black hole, we send nothing larger than SafeDatagram for holeHold. If we
	// find another hole soon after the hold, within a time as long as the hold itself, the next
	// hold is twice as long, up to maxHoleHold.
	holeHold    = 10 * time.Second
	maxHoleHold = 10 * time.Minute

	// After the hold, the first holeTrials larger datagrams are sent at least trialPause apart,
	// so that the loss of one is usually noticed before the next is sent. If the hole is still
	// there, we lose only the three packets that BlackHole needs. If all datagrams could be
	// large at once, so many would be lost that the reliable buffer overflows, as it did on half
	// of the connections in a test with ten calls of 8 KB per second.
	holeTrials = 8
	trialPause = 250 * time.Millisecond
)

// An mtu limits the size of datagrams. The carrier has its own limit, but it may learn later
// than we do that the path has shrunk.
type mtu struct {
	path int // the carrier's Path.MaxDatagram, but at least minDatagram

	// A refusal by the carrier, which counts until refusalEnd or until path changes.
	refusal    int // the largest size that the carrier accepts, in bytes; 0 if it refused nothing
	refusalEnd time.Time

	// A black hole, which swallows large datagrams (RFC 8899, section 4.3).
	holdEnd time.Time     // until then, send at most SafeDatagram bytes; zero if no hole was ever found
	hold    time.Duration // length of the latest hold
	trials  int           // how many larger datagrams must still be sent trialPause apart
	trialAt time.Time     // when the next larger datagram may be sent
}

// update sets the carrier's MaxDatagram, which is 0 if unknown. The limit never falls below
// minDatagram, because a path that really carries less ends the link: the carrier refuses a
// datagram of minDatagram bytes.
func (m *mtu) update(path int) {
	path = max(path, minDatagram)
	if path != m.path {
		m.path = path
		m.refusal = 0
	}
}

// refuse records that the carrier accepts at most size bytes.
func (m *mtu) refuse(now time.Time, size int) {
	m.refusal, m.refusalEnd = size, now.Add(refusalHold)
}

// blackHole begins a hold, because a machine found that large datagrams don't arrive. It returns
// the length of the hold, or 0 if there is no need for one.
func (m *mtu) blackHole(now time.Time) time.Duration {
	if m.limit(now) <= SafeDatagram {
		// Nothing larger is allowed anyway, so the machine must have lost older datagrams.
		return 0
	}
	if m.hold == 0 || now.Sub(m.holdEnd) > m.hold {
		// The path was good for longer than the last hold, so begin with a short one again.
		m.hold = holeHold
	} else {
		m.hold = min(2*m.hold, maxHoleHold)
	}
	m.holdEnd = now.Add(m.hold)
	m.trials = holeTrials
	return m.hold
}

// sent is called when a datagram of size bytes is sent.
func (m *mtu) sent(now time.Time, size int) {
	if size > SafeDatagram && m.trials > 0 {
		m.trials--
		m.trialAt = now.Add(trialPause)
	}
}

// limitNow is the maximum size of a datagram that is sent now. It differs from limit only in the
// pause between two trials.
func (m *mtu) limitNow(now time.Time) int {
	size := m.limit(now)
	if m.trials > 0 && now.Before(m.trialAt) {
		size = min(size, SafeDatagram)
	}
	return size
}

// limit returns the maximum size of a datagram.
func (m *mtu) limit(now time.Time) int {
	size := min(m.path, maxDatagram)
	if m.refusal > 0 && now.Before(m.refusalEnd) {
		size = min(size, m.refusal)
	}
	if now.Before(m.holdEnd) {
		size = min(size, SafeDatagram)
	}
	return size
}
