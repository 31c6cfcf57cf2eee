package link

import "time"

const (
	// SafeDatagram is a size that fits a QUIC packet of 1,200 bytes, which every
	// path carries (RFC 9000, section 14). quic-go accepts it after a rebind.
	SafeDatagram = 1163

	// maxDatagram is the most bytes of a datagram, and the size of buffers. It
	// is above the 1,452 bytes of quic-go's largest packet.
	maxDatagram = 1500
	// minDatagram is the least size that a path must take: an entry of package
	// bunch fits into it with its headers.
	minDatagram = SafeDatagram

	// refusalHold is how long a refusal counts while the carrier's Path still has a larger size.
	refusalHold = 10 * time.Second
	// holeHold is how long only safe datagrams are sent after a black hole was found. The
	// time doubles, up to maxHoleHold, if the next hole is found within as long again.
	holeHold    = 10 * time.Second
	maxHoleHold = 10 * time.Minute
	// holeTrials is how many larger datagrams are sent one by one after the hold before all may be
	// as large; holeTrial is the least time between two of them. If the hole is still there, three
	// are lost, one at a time. When all were large at once, the losses filled the reliable buffer
	// until it overflowed, on half of the connections that make ten calls of 8 KB a second.
	holeTrials = 8
	holeTrial  = 250 * time.Millisecond
)

// mtu decides how large a datagram may be.
type mtu struct {
	path int // the carrier's Path.MaxDatagram, but at least minDatagram

	// The most bytes that the carrier has accepted, after a refusal: it counts
	// until Path changes, or until refusalEnd. 0 = no refusal.
	refusal    int
	refusalEnd time.Time

	// Large datagrams are lost, a black hole (RFC 8899, section 4.3): only safe
	// ones are sent until holeEnd. Zero = none was found.
	holeEnd time.Time
	hold    time.Duration // time from the discovery of the last black hole to holeEnd
	trials  int           // how many larger datagrams must still be sent one by one after holeEnd
	trialAt time.Time     // when the next of them may be sent
}

// update handles the carrier's MaxDatagram; 0 = unknown. If it is less than a path must take,
// mtu still allows minDatagram. The carrier will refuse that size, which ends the link.
func (m *mtu) update(path int) {
	path = max(path, minDatagram)
	if path != m.path {
		m.path, m.refusal = path, 0
	}
}

// refuse records that the carrier accepts at most size bytes.
func (m *mtu) refuse(now time.Time, size int) {
	m.refusal, m.refusalEnd = size, now.Add(refusalHold)
}

// blackHole is called when large datagrams are lost. It returns the time for which
// only safe ones are sent, or 0 if no larger one was allowed, so the report is old.
// If the path was good for longer than the last hold, the hold is holeHold again.
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

// left records that a datagram of size bytes is sent.
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
