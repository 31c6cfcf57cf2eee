package link

import "time"

const (
	// paceGain is the number of congestion windows that may be sent per round trip. Two is
	// what quic-go uses in slow start. After slow start, quic-go paces at 5/4 of a window
	// (RFC 9002, section 7.7), but then the congestion window limits the bytes in flight
	// anyway.
	paceGain = 2
	// A burst is limited to paceBurst datagrams, or to what the rate allows in paceTime if
	// that is more. quic-go does the same.
	paceBurst = 10
	paceTime  = 2 * time.Millisecond
	// packetOverhead is the number of bytes QUIC adds to a datagram: header, connection ID,
	// frame and tag.
	packetOverhead = 40
)

// A pacer limits the rate at which datagrams are given to quic-go to the rate of quic-go's
// own pacer. So datagrams wait in the machines rather than inside quic-go. There, play could
// not overtake bulk, and the wait would look like a queue on the path.
//
// It is a token bucket (RFC 9002, section 7.7). The zero pacer never delays a datagram. The
// link's lock guards it.
type pacer struct {
	rate   float64   // bytes per second; 0 if unknown, which delays nothing
	size   float64   // size of a full datagram in bytes, with packetOverhead
	bucket float64   // bytes that may be sent now
	last   time.Time // when update last filled the bucket
}

// update takes the rate from the carrier's path and fills the bucket for the time since the
// last update. size is the size of a full datagram.
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

// wait returns the time the next datagram must wait. It is 0 or at least a millisecond, so
// that one timer releases several datagrams.
func (p *pacer) wait() time.Duration {
	if p.rate == 0 || p.bucket >= p.size {
		return 0
	}
	return max(time.Millisecond, time.Duration((p.size-p.bucket)/p.rate*float64(time.Second)))
}

// sent takes a datagram of size bytes out of the bucket.
func (p *pacer) sent(size int) { p.bucket = max(0, p.bucket-float64(size+packetOverhead)) }
