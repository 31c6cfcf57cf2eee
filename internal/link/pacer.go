package link

import "time"

const (
	// paceGain is how many windows may leave in a round trip: as many as quic-go sends in slow start. After it quic-go sends 5/4 of a window
	// (RFC 9002, section 7.7), but then the window bounds what is in flight anyway.
	paceGain = 2
	// paceBurst datagrams, or as many as the rate allows in paceTime, leave without a pause, as in quic-go.
	paceBurst = 10
	paceTime  = 2 * time.Millisecond
	// packetOverhead is the number of bytes that QUIC adds to a datagram: header, connection id, frame and tag.
	packetOverhead = 40
)

// pacer sends no faster than quic-go's own pacer does, so that datagrams wait in the machines and not inside quic-go, where play cannot overtake
// bulk and the wait would look like a queue on the path. It is a token bucket. The zero pacer never waits. The link's lock guards it.
type pacer struct {
	rate  float64   // bytes a second; 0 = unknown, and nothing waits
	size  float64   // bytes of a full datagram, with its overhead
	saved float64   // bytes that may leave without a pause
	last  time.Time // when use last added to saved
}

// use takes the rate from the carrier's path, and adds to saved what it allows since the last use; size is that of a full datagram.
func (p *pacer) use(now time.Time, path Path, size int) {
	if path.Cwnd <= 0 || path.SmoothedRTT <= 0 {
		p.rate = 0
		return
	}
	p.rate = paceGain * float64(path.Cwnd) / path.SmoothedRTT.Seconds()
	p.size = float64(size + packetOverhead)
	p.saved = min(p.saved+p.rate*now.Sub(p.last).Seconds(), max(paceBurst*p.size, p.rate*paceTime.Seconds()))
	p.last = now
}

// wait returns how long no datagram may leave: 0, or at least a millisecond, so that several leave together.
func (p *pacer) wait() time.Duration {
	if p.rate == 0 || p.saved >= p.size {
		return 0
	}
	return max(time.Millisecond, time.Duration((p.size-p.saved)/p.rate*float64(time.Second)))
}

// sent counts a datagram that leaves.
func (p *pacer) sent(size int) { p.saved = max(0, p.saved-float64(size+packetOverhead)) }
