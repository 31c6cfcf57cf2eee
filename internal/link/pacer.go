package link

import "time"

const (
	// paceGain is how many congestion windows may be sent per round trip: two, as quic-go
	// does in slow start. After slow start quic-go paces at 5/4 of a window (RFC 9002,
	// section 7.7), but then the congestion window limits what is in flight anyway.
	paceGain = 2
	// A burst is limited to paceBurst datagrams, or to what the rate allows in
	// paceTime if that is more, as in quic-go.
	paceBurst = 10
	paceTime  = 2 * time.Millisecond
	// packetOverhead is how many bytes QUIC adds to a datagram: header,
	// connection id, frame and tag.
	packetOverhead = 40
)

// A pacer limits the rate at which datagrams are given to quic-go to that of quic-go's own
// pacer. So datagrams wait in the machines and not inside quic-go, where play could not
// overtake bulk, and where the wait would look like a queue on the path. It is a token
// bucket (RFC 9002, section 7.7). The zero pacer never waits. The link's lock guards it.
type pacer struct {
	rate   float64   // bytes a second; 0 = unknown, and nothing waits
	size   float64   // bytes of a full datagram, with packetOverhead
	bucket float64   // bytes that may be sent now
	last   time.Time // when update last filled the bucket
}

// update takes the rate from the carrier's path and fills the bucket for the
// time since the last update. size is that of a full datagram.
func (p *pacer) update(now time.Time, path Path, size int) {
	if path.Cwnd <= 0 || path.SmoothedRTT <= 0 {
		p.rate = 0
		return
	}
	p.rate = paceGain * float64(path.Cwnd) / path.SmoothedRTT.Seconds()
	p.size = float64(size + packetOverhead)
	p.bucket = min(p.bucket+p.rate*now.Sub(p.last).Seconds(), max(paceBurst*p.size, p.rate*paceTime.Seconds()))
	p.last = now
}

// wait returns how long the next datagram must wait. It is 0, or at least a
// millisecond, so that a timer releases several datagrams at once.
func (p *pacer) wait() time.Duration {
	if p.rate == 0 || p.bucket >= p.size {
		return 0
	}
	return max(time.Millisecond, time.Duration((p.size-p.bucket)/p.rate*float64(time.Second)))
}

// sent takes a datagram of size bytes out of the bucket.
func (p *pacer) sent(size int) { p.bucket = max(0, p.bucket-float64(size+packetOverhead)) }
