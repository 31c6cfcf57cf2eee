package link

import "time"

const (
	// SafeDatagram is the maximum size of a datagram that every path takes, in bytes. It just
	// fits into a QUIC packet of 1,200 bytes, which RFC 9000, section 14 requires every path to
	// carry. quic-go accepts this size even after a rebind.
	SafeDatagram = 1163

	// maxDatagram is the size of our buffers, and so the maximum size of any datagram.
	// quic-go's packets are never larger than 1,452 bytes.
	maxDatagram = 1500
	// minDatagram is the datagram size that a path must take. A bunch entry and its
	// headers fit into it.
	minDatagram = SafeDatagram

	// refusalHold is the time for which we trust a refusal rather than the carrier's Path, if
	// Path keeps reporting a larger size.
	refusalHold = 10 * time.Second

	// After finding a black hole, we send only safe datagrams for holeHold. If we find another
	// one soon after the hold, within a time as long as the hold itself, the next hold is twice
	// as long, up to maxHoleHold.
	holeHold    = 10 * time.Second
	maxHoleHold = 10 * time.Minute

	// After the hold, the first holeTrials larger datagrams are sent one at a time, at
	// least holeTrial apart. If the hole is still there, we lose three packets, one at a
	// time. When we allowed all datagrams to be large at once, so many were lost that the
	// reliable buffer filled up and overflowed on half of the connections that make ten
	// calls of 8 KB per second.
	holeTrials = 8
	holeTrial  = 250 * time.Millisecond
)

// An mtu limits the size of datagrams. The carrier has its own limit, but it may learn later
// than we do that the path has shrunk.
type mtu struct {
	path int // the carrier's Path.MaxDatagram, but at least minDatagram

	// A refusal by the carrier, which counts until refusalEnd, or until path changes.
	refusal    int // the largest size that the carrier takes, in bytes; 0 if it refused nothing
	refusalEnd time.Time

	// A black hole, which swallows large datagrams (RFC 8899, section 4.3).
	holeEnd time.Time     // until then, send only safe datagrams; zero if no hole was ever found
	hold    time.Duration // length of the hold after the latest hole was found
	trials  int           // number of larger datagrams that we still have to send one at a time
	trialAt time.Time     // when the next larger datagram may be sent
}

// update takes the carrier's MaxDatagram, which is 0 if unknown. We never go below minDatagram
// ourselves. If the path really takes less, the carrier refuses a datagram of minDatagram
// bytes, which ends the link.
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

// blackHole is called when a machine finds that large datagrams don't arrive. It returns the
// time for which we send only safe datagrams.
func (m *mtu) blackHole(now time.Time) time.Duration {
	if m.limit(now) <= SafeDatagram {
		// We don't allow anything larger anyway, so this must be about an older datagram.
		return 0
	}
	if m.hold == 0 || now.Sub(m.holeEnd) > m.hold {
		// The path has been good for longer than the last hold, so begin with a short hold
		// again.
		m.hold = holeHold
	} else {
		m.hold = min(2*m.hold, maxHoleHold)
	}
	m.holeEnd = now.Add(m.hold)
	m.trials = holeTrials
	return m.hold
}

// sent is called when a datagram of size bytes is sent.
func (m *mtu) sent(now time.Time, size int) {
	if size > SafeDatagram && m.trials > 0 {
		m.trials--
		m.trialAt = now.Add(holeTrial)
	}
}

// limitNow is like limit, but allows only safe datagrams while we pause between two trials.
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
	if now.Before(m.holeEnd) {
		size = min(size, SafeDatagram)
	}
	return size
}
