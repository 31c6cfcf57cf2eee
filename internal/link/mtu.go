package link

import "time"

const (
	// SafeDatagram fits the smallest packet that QUIC falls back to. quic-go: 1,163 bytes after a rebind.
	SafeDatagram = 1163

	// maxDatagram bounds every datagram: quic-go sends packets of at most 1,452 bytes.
	maxDatagram = 1500
	// minDatagram is the least that a path must take: package bunch builds no packet for less, for an entry with its headers
	// must fit.
	minDatagram = SafeDatagram

	// refusalHold is how long a refusal counts against a carrier that still says otherwise.
	refusalHold = 10 * time.Second
	// holeHold is the first wait before large datagrams are tried again after a black hole; it doubles.
	holeHold    = 10 * time.Second
	maxHoleHold = 10 * time.Minute
)

// mtu decides how large a datagram may be.
type mtu struct {
	path int // what the carrier said last

	// A refusal counts until the carrier says something else, or until its end.
	refusal    int
	refusalEnd time.Time

	// A black hole swallows large datagrams without a word; until its end only safe ones leave.
	holeEnd time.Time
	hold    time.Duration
}

// update takes what the carrier says; 0 is unknown. A carrier that says less than a path must take is asked all the same, so
// that its refusal ends the link.
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

// blackHole notes that large datagrams vanish. It returns how long safe ones are used, or 0 when no large one was
// allowed anyway: the report is then an old one. A path that held for longer than the last wait starts anew.
func (m *mtu) blackHole(now time.Time) time.Duration {
	if m.max(now) <= SafeDatagram {
		return 0
	}
	if m.hold == 0 || now.Sub(m.holeEnd) > m.hold {
		m.hold = holeHold
	} else {
		m.hold = min(2*m.hold, maxHoleHold)
	}
	m.holeEnd = now.Add(m.hold)
	return m.hold
}

// max returns the most bytes that a datagram may have now.
func (m *mtu) max(now time.Time) int {
	size := min(m.path, maxDatagram)
	if m.refusal > 0 && now.Before(m.refusalEnd) {
		size = min(size, m.refusal)
	}
	if now.Before(m.holeEnd) {
		size = min(size, SafeDatagram)
	}
	return size
}
