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

	// JumboPacket is the largest packet in bytes: with the headers of IPv6 and UDP it fills a frame that holds 9,000 bytes, which many
	// networks of data centres carry, and so does the loopback.
	JumboPacket = 9000 - 40 - 8
	// jumboTime is how long one may keep a bottleneck that is no faster than our rate, because play waits behind it: 1.8 MB/s. A link with
	// such frames is far faster, and our rate but a share of it, unless a shaper holds it.
	jumboTime = 5 * time.Millisecond
	// sharedJumboTime is jumboTime on a path that has passed on jumboBurst packets within a millisecond, as many as fill one of them: there the
	// rate is but our share of a far faster bottleneck. It still bounds what play waits behind a shaper that lets such bursts pass. Two hundred
	// clients that load from one server over loopback have half a MB/s to one each, and send two fifths of the packets.
	sharedJumboTime = 20 * time.Millisecond
	jumboBurst      = (JumboPacket + MaxPacket - 1) / MaxPacket
	// jumboWindow is how many of them the window must hold, so that acks come one by one.
	jumboWindow = 4
	// jumboTries is how many probes must be lost in a row for the path to take none (RFC 8899, section 5.1.2: MAX_PROBES), and jumboHold
	// how long after that another search begins (section 5.1.1: PMTU_RAISE_TIMER).
	jumboTries = 3
	jumboHold  = 10 * time.Minute
	// jumboLoss is the share of jumbo packets of late that must be lost for others to stop: a path takes them only now and then, and the
	// pacer would slow down for it. Few paths that are as fast lose as much of all sizes.
	jumboLoss = 0.25
)

// mtu decides how large a packet may be: as large as QUIC has found, which the owner passes on, or SafePacket while larger ones vanish
// (black hole detection, RFC 8899, section 4.3). QUIC itself does not notice when the path shrinks.
type mtu struct {
	first  uint64 // number of the first packet over this path; what becomes of earlier ones says nothing of it
	hole   recovery.BlackHole
	shrunk uint64        // next packet number when large packets were found to vanish; 0 = they pass
	retry  time.Duration // while shrunk: when to send the next large packet
	hold   time.Duration // while shrunk: how long after that to send another, if it is lost
	jumbo  jumbo         // packets that are larger than QUIC's
}

// takesJumbo reports whether bulk may travel in jumbo packets.
func (m *mtu) takesJumbo() bool { return m.shrunk == 0 && m.jumbo.usable() }

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
	m.jumbo.check(t, next)
	if m.hole.Found(next) && m.shrunk == 0 {
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
	if n < m.first {
		return
	}
	m.jumbo.acked(n, r)
	m.hole.Acked(n, r.large())
	if r.large() && n >= m.shrunk {
		m.shrunk = 0
	}
}

// lost notes that a packet counts as lost. What becomes of jumbo packets says nothing of smaller ones.
func (m *mtu) lost(t time.Duration, n uint64, r *record) {
	switch {
	case n < m.first:
	case r.jumbo():
		m.jumbo.lost(t, n)
	default:
		m.hole.Lost(n, r.large())
	}
}

// jumbo finds out whether the path takes jumbo packets: path MTU discovery (RFC 8899) with one size to try, far above those that QUIC looks
// for. Bulk on a fast path travels in them. The zero value searches as soon as they would pay.
type jumbo struct {
	hole  recovery.BlackHole
	pays  bool          // the path is fast enough
	takes bool          // one has arrived, and no black hole was found since
	since uint64        // number of the first packet after the last black hole; what becomes of earlier ones says nothing
	probe uint64        // one above the number of the probe in flight; 0 = none
	tries int           // probes that were lost in a row
	again time.Duration // no probe leaves before
	hold  time.Duration // how long after the next black hole the path is tried; 0 = at once
	loss  float64       // share of jumbo packets that were lost, of about the last 16
}

// weigh notes the rate in bytes a second at which packets arrive, the window in bytes, and how many packets that left together have arrived
// within a millisecond.
func (j *jumbo) weigh(rate float64, window, together int) {
	most := jumboTime
	if together >= jumboBurst {
		most = sharedJumboTime
	}
	j.pays = rate*most.Seconds() >= JumboPacket && window >= jumboWindow*JumboPacket
}

// usable reports whether bulk may travel in jumbo packets.
func (j *jumbo) usable() bool { return j.takes && j.pays }

// probeDue reports whether it is time to try the path.
func (j *jumbo) probeDue(t time.Duration) bool {
	return j.pays && !j.takes && j.probe == 0 && t >= j.again
}

// probeSent notes that packet n leaves to try the path.
func (j *jumbo) probeSent(n uint64) { j.probe = n + 1 }

// acked notes that a packet arrived.
func (j *jumbo) acked(n uint64, r *record) {
	if n < j.since {
		return
	}
	j.hole.Acked(n, r.jumbo())
	if r.jumbo() {
		j.takes, j.probe, j.tries = true, 0, 0
		j.loss -= j.loss / 16
	}
}

// lost notes that a jumbo packet counts as lost.
func (j *jumbo) lost(t time.Duration, n uint64) {
	switch {
	case n < j.since:
		return
	case n+1 != j.probe:
		j.hole.Lost(n, true)
		j.loss += (1 - j.loss) / 16
		return
	}
	j.probe = 0
	if j.tries++; j.tries == jumboTries {
		j.tries, j.again = 0, t+jumboHold
	}
}

// check looks whether jumbo packets vanish, all or many of them; next is the number of the next packet. Then the path is tried anew: at
// once the first time, since the cause may have been an outage, and later each further time, for each black hole costs a probe timeout.
func (j *jumbo) check(t time.Duration, next uint64) {
	if j.hole.Found(next) || j.loss > jumboLoss {
		j.takes, j.since, j.again, j.loss = false, next, t+j.hold, 0
		j.hold = min(max(2*j.hold, holeHold), maxHoleHold)
	}
}
