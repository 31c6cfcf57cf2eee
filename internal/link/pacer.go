package link

import "time"

const (
	// paceGain is how many congestion windows we send per round trip. quic-go sends two in slow
	// start. It later slows down to 5/4 of a window (RFC 9002, section 7.7), but we don't have to
	// follow, because the congestion window limits the bytes in flight anyway.
	paceGain = 2

	// As in quic-go, a burst has up to paceBurst datagrams, or what the rate allows in paceTime if
	// that's more.
	paceBurst = 10
	paceTime  = 2 * time.Millisecond

	// minWait is the shortest wait for the pacer. It is long enough that a single timer releases
	// several datagrams.
	minWait = time.Millisecond

	// packetOverhead is how much QUIC adds to a datagram, in bytes: a header with a connection
	// ID, a frame type and the AEAD's tag.
	packetOverhead = 40
)

// A pacer is a token bucket (RFC 9002, section 7.7) that gives datagrams to quic-go no faster than
// quic-go's own pacer would send them.
//
// This makes datagrams wait in the machines rather than inside quic-go, where play (the game's own
// traffic) couldn't overtake bulk, and where the wait would look like a queue on the path.
//
// The zero pacer doesn't delay anything. A pacer is guarded by the link's lock.
type pacer struct {
	rate   float64   // bytes per second; 0 if unknown, in which case nothing waits
	size   float64   // size of a full datagram in bytes, with packetOverhead
	bucket float64   // bytes that may be sent now
	last   time.Time // when the bucket was last filled
}

// update calculates the rate from the carrier's path, and fills the bucket at that rate for the
// time since it was last filled. size is the maximum size of a datagram.
func (p *pacer) update(now time.Time, path Path, size int) {
	if path.Cwnd <= 0 || path.SmoothedRTT <= 0 {
		p.rate = 0
		return
	}
	p.rate = paceGain * float64(path.Cwnd) / path.SmoothedRTT.Seconds()
	p.size = float64(size + packetOverhead)
	burst := max(paceBurst*p.size, p.rate*paceTime.Seconds())
	p.bucket = min(p.bucket+p.rate*now.Sub(p.last).Seconds(), burst)
	p.last = now
}

// wait returns how long the next datagram must wait, which is 0 or at least minWait.
func (p *pacer) wait() time.Duration {
	if p.rate == 0 || p.bucket >= p.size {
		return 0
	}
	return max(minWait, time.Duration((p.size-p.bucket)/p.rate*float64(time.Second)))
}

// sent takes a datagram's bytes out of the bucket.
func (p *pacer) sent(size int) { p.bucket = max(0, p.bucket-float64(size+packetOverhead)) }
