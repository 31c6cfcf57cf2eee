package link

import "time"

const (
	// paceGain is how many windows leave in a round trip: what quic-go sends in slow start. Later it sends 5/4 (RFC 9002, section
	// 7.7), and then the window bounds what is in flight.
	paceGain = 2
	// paceBurst datagrams, or as many as take paceTime, leave without a pause, as in quic-go.
	paceBurst = 10
	paceTime  = 2 * time.Millisecond
	// packetOverhead is the number of bytes that QUIC adds to a datagram: header, connection id, frame and tag.
	packetOverhead = 40
)

// pacer keeps the pace of quic-go's own pacer, so that datagrams wait in the machines and not inside the carrier, where
// play cannot overtake bulk and the wait would look like a queue on the path. The zero pacer never waits.
type pacer struct {
	rate  float64 // bytes a second, 0 = unknown
	size  float64 // of a full datagram, with its overhead
	saved float64 // bytes that might leave at the time last
	last  time.Time
}

// use takes the carrier's path and the size of a full datagram, and saves up bytes.
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

// wait returns how long no datagram may leave. It is at least a millisecond if it is not 0, so that several leave together.
func (p *pacer) wait() time.Duration {
	if p.rate == 0 || p.saved >= p.size {
		return 0
	}
	return max(time.Millisecond, time.Duration((p.size-p.saved)/p.rate*float64(time.Second)))
}

// sent counts a datagram.
func (p *pacer) sent(size int) { p.saved = max(0, p.saved-float64(size+packetOverhead)) }
