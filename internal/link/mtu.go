package link

import "time"

const (
	// SafeDatagram fits a QUIC packet of 1,200 bytes, which every path carries (RFC 9000, section 14): quic-go takes so much after a rebind.
	SafeDatagram = 1163

	// maxDatagram bounds every datagram, and is the size of buffers. It is above the 1,452 bytes of quic-go's largest packet.
	maxDatagram = 1500
	// minDatagram is the least that a path must take: with it, an entry of package bunch fits with its headers.
	minDatagram = SafeDatagram

	// refusalHold is how long a refusal counts while the carrier's Path still says more.
	refusalHold = 10 * time.Second
	// holeHold is how long only safe datagrams leave after a black hole was found. The hold doubles, up to maxHoleHold, when the next
	// hole is found within one more hold.
	holeHold    = 10 * time.Second
	maxHoleHold = 10 * time.Minute
	// holeTrials is how many larger datagrams leave after the hold before all may be as large, and holeTrial the least time between two of them. In a
	// hole that is still there three are lost, one at a time. When all were large at once, what was lost filled the reliable buffer of half of the
	// connections that make ten calls of 8 KB a second, until it overflowed.
	holeTrials = 8
	holeTrial  = 250 * time.Millisecond
)

// mtu decides how large a datagram may be.
type mtu struct {
	path int // the carrier's Path.MaxDatagram, or minDatagram when that is more

	// The carrier has refused larger datagrams: this counts until its Path changes, or until refusalEnd.
	refusal    int
	refusalEnd time.Time

	// Large datagrams were found to vanish, a black hole (RFC 8899, section 4.3): until holeEnd only safe ones leave.
	holeEnd time.Time
	hold    time.Duration // from the discovery of the last black hole to holeEnd
	trials  int           // how many larger ones must still leave one by one, after holeEnd
	trialAt time.Time     // when the next one may
}

// update takes the carrier's MaxDatagram; 0 is unknown. When it is less than a path must take, mtu still allows minDatagram: the
// carrier will refuse that, which ends the link.
func (m *mtu) update(path int) {
	path = max(path, minDatagram)
	if path != m.path {
		m.path, m.refusal = path, 0
	}
}

// refuse notes that the carrier takes at most size bytes.
func (m *mtu) refuse(now time.Time, size int) {
	m.refusal, m.refusalEnd = size, now.Add(refusalHold)
}

// blackHole notes that large datagrams vanish, and returns the time for which only safe ones leave. It returns 0, for an old report, when
// no larger one was allowed. When the path was good for longer than the last hold, the hold begins at holeHold again.
func (m *mtu) blackHole(now time.Time) time.Duration {
	if m.most(now) <= SafeDatagram {
		return 0
	}
	if m.hold == 0 || now.Sub(m.holeEnd) > m.hold {
		m.hold = holeHold
	} else {
		m.hold = min(2*m.hold, maxHoleHold)
	}
	m.holeEnd, m.trials = now.Add(m.hold), holeTrials
	return m.hold
}

// left notes that a datagram of so many bytes leaves.
func (m *mtu) left(now time.Time, size int) {
	if size > SafeDatagram && m.trials > 0 {
		m.trials--
		m.trialAt = now.Add(holeTrial)
	}
}

// max returns the most bytes that a datagram may have now.
func (m *mtu) max(now time.Time) int {
	size := m.most(now)
	if m.trials > 0 && now.Before(m.trialAt) {
		size = min(size, SafeDatagram)
	}
	return size
}

// most is max without the pauses between trials.
func (m *mtu) most(now time.Time) int {
	size := min(m.path, maxDatagram)
	if m.refusal > 0 && now.Before(m.refusalEnd) {
		size = min(size, m.refusal)
	}
	if now.Before(m.holeEnd) {
		size = min(size, SafeDatagram)
	}
	return size
}
