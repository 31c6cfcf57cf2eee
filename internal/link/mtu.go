package link

import "time"

const (
	// SafeDatagram is the size of a datagram that every path takes, in bytes. It just fits into
	// a QUIC packet of 1,200 bytes, which RFC 9000, section 14 wants all paths to carry, and
	// quic-go accepts it even after a rebind.
	SafeDatagram = 1163

	// maxDatagram is how large a datagram may be at all, and the size of our buffers. quic-go's
	// packets are never larger than 1,452 bytes.
	maxDatagram = 1500
	// minDatagram is what a path must take at the least. A bunch entry with its headers fits.
	minDatagram = SafeDatagram

	// refusalHold is how long we believe a refusal rather than the carrier's Path, if that keeps
	// reporting a larger size.
	refusalHold = 10 * time.Second

	// holeHold is how long we send only safe datagrams after finding a black hole. If we find
	// the next one soon after that, within as long again, we hold for twice as long, up to
	// maxHoleHold.
	holeHold    = 10 * time.Second
	maxHoleHold = 10 * time.Minute

	// After the hold, the first holeTrials larger datagrams are sent one at a time, at least
	// holeTrial apart. If the hole is still there, that loses three packets, one by one. When
	// all datagrams could be large at once, so many were lost that the reliable buffer filled up
	// and overflowed, on half of the connections that make ten calls of 8 KB a second.
	holeTrials = 8
	holeTrial  = 250 * time.Millisecond
)

// An mtu limits how large datagrams may be. The carrier has its own idea of what the path takes,
// but it may learn later than we do that the path has shrunk.
type mtu struct {
	path int // the carrier's Path.MaxDatagram, but at least minDatagram

	// A refusal by the carrier, which counts until refusalEnd, or until path changes.
	refusal    int // the largest size that the carrier would take, in bytes; 0 if it refused nothing
	refusalEnd time.Time

	// A black hole, which swallows large datagrams (RFC 8899, section 4.3).
	holeEnd time.Time     // until then, send only safe datagrams; zero if no hole was ever found
	hold    time.Duration // how long we decided to do that when we found the latest hole
	trials  int           // how many larger datagrams we still have to send one at a time
	trialAt time.Time     // when the next of those may be sent
}

// update takes the carrier's MaxDatagram, which is 0 if unknown. We never go below minDatagram
// ourselves. If the path really takes less, the carrier refuses a datagram of that size, and that
// ends the link.
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

// blackHole is called when a machine finds that large datagrams don't arrive. It returns how long
// we keep to safe datagrams.
func (m *mtu) blackHole(now time.Time) time.Duration {
	if m.limit(now) <= SafeDatagram {
		// We don't allow anything larger anyway, so this must be about an older datagram.
		return 0
	}
	if m.hold == 0 || now.Sub(m.holeEnd) > m.hold {
		// The path has been good for longer than we held, so begin with a short hold again.
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

// limit returns how large datagrams may be.
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
