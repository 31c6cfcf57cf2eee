package link

import "time"

const (
	// paceGain windows a round trip are what quic-go sends at most, in slow start; later 5/4 (RFC 9002, section 7.7), when
	// what is in flight is bounded all the same.
	paceGain = 2
	// paceBurst datagrams, or what leaves in paceTime, go without a pause, as in quic-go.
	paceBurst = 10
	paceTime  = 2 * time.Millisecond
	// packetOverhead is what QUIC adds to a datagram: header, connection id, frame and tag.
	packetOverhead = 40
)

// pacer keeps the pace of quic-go's own pacer, so that datagrams wait in the machines and not inside the carrier, where
// play cannot overtake bulk and the wait would look like a queue on the path. The zero pacer never waits.
type pacer struct {
	rate   float64 // bytes a second, 0 = unknown
	size   float64 // of a full datagram, with its overhead
	budget float64 // bytes that may leave at last
	last   time.Time
}

// use takes what the carrier says of its path; size is that of a full datagram.
func (p *pacer) use(now time.Time, path Path, size int) {
	if path.Cwnd <= 0 || path.SmoothedRTT <= 0 {
		p.rate = 0
		return
	}
	p.rate = paceGain * float64(path.Cwnd) / path.SmoothedRTT.Seconds()
	p.size = float64(size + packetOverhead)
	p.budget = min(p.budget+p.rate*now.Sub(p.last).Seconds(), max(paceBurst*p.size, p.rate*paceTime.Seconds()))
	p.last = now
}

// wait returns how long no datagram may leave, at least a millisecond unless it is 0, so that several leave together.
func (p *pacer) wait() time.Duration {
	if p.rate == 0 || p.budget >= p.size {
		return 0
	}
	return max(time.Millisecond, time.Duration((p.size-p.budget)/p.rate*float64(time.Second)))
}

// sent counts a datagram.
func (p *pacer) sent(size int) { p.budget = max(0, p.budget-float64(size+packetOverhead)) }
