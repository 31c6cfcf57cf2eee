package link

import "time"

const (
	// SafeDatagram is the size in bytes of a datagram that fits a QUIC packet of 1,200 bytes.
	// Every path carries such a packet (RFC 9000, section 14), and quic-go accepts it after a
	// rebind.
	SafeDatagram = 1163

	// maxDatagram is the maximum size of a datagram in bytes, and the size of buffers. It
	// exceeds quic-go's largest packet, 1,452 bytes.
	maxDatagram = 1500
	// minDatagram is the minimum size that a path must take. A bunch entry with its headers
	// fits into it.
	minDatagram = SafeDatagram

	// refusalHold is how long a refusal counts while the carrier's Path still reports a
	// larger size.
	refusalHold = 10 * time.Second
	// holeHold is how long only safe datagrams are sent after a black hole was found. The
	// time doubles, up to maxHoleHold, if the next hole is found within the same time again.
	holeHold    = 10 * time.Second
	maxHoleHold = 10 * time.Minute
	// holeTrials is the number of larger datagrams sent one by one after the hold, before all
	// datagrams may be large again. holeTrial is the minimum time between two of them.
	//
	// If the hole is still there, three are lost, one at a time. When all datagrams became
	// large at once, the losses filled the reliable buffer until it overflowed. This happened
	// on half of the connections that make ten calls of 8 KB a second.
	holeTrials = 8
	holeTrial  = 250 * time.Millisecond
)

// mtu limits the size of datagrams.
type mtu struct {
	path int // the carrier's Path.MaxDatagram, but at least minDatagram

	// After a refusal: the maximum size in bytes the carrier accepted. It counts until Path
	// changes or until refusalEnd. 0 = no refusal.
	refusal    int
	refusalEnd time.Time

	// Large datagrams are lost in a black hole (RFC 8899, section 4.3). Only safe ones are
	// sent until holeEnd. Zero = no black hole was found.
	holeEnd time.Time
	hold    time.Duration // time from the discovery of the last black hole to holeEnd
	trials  int           // larger datagrams still to be sent one by one after holeEnd
	trialAt time.Time     // when the next of these may be sent
}

// update takes the carrier's MaxDatagram; 0 = unknown. If it is below minDatagram, mtu still
// allows minDatagram: the carrier then refuses a datagram of that size, which ends the link.
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

// blackHole is called when large datagrams are lost. It returns how long only safe datagrams
// are sent. The result is 0 if no larger datagram was allowed, because the report is then
// old.
//
// If the path was good for longer than the last hold, the hold starts at holeHold again.
func (m *mtu) blackHole(now time.Time) time.Duration {
	if m.most(now) <= SafeDatagram {
		return 0
	}
	if m.hold == 0 || now.Sub(m.holeEnd) > m.hold {
		m.hold = holeHold
	} else {
		m.hold = min(2*m.hold, maxHoleHold)
	}
	m.holeEnd = now.Add(m.hold)
	m.trials = holeTrials
	return m.hold
}

// left records that a datagram of size bytes is sent.
func (m *mtu) left(now time.Time, size int) {
	if size > SafeDatagram && m.trials > 0 {
		m.trials--
		m.trialAt = now.Add(holeTrial)
	}
}

// max returns the maximum size of a datagram now.
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
