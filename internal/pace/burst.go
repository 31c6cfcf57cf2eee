package pace

const (
	// minBurst is the minimum number of packets that may be sent together if the owner
	// wants bursts (BBR.send_quantum of draft-ietf-ccwg-bbr). A single packet would show
	// nothing about longer bursts.
	minBurst = 2
	// maxBurst is the maximum number of packets that may be sent together: as many as
	// package sealed passes to the system in one call.
	maxBurst = 16
	// burstBytes is the number of bytes after which a burst ends, so jumbo packets do not
	// make it longer. Without this limit, among two hundred controllers with less than a
	// MB/s each, the pacer paused for 90 ms after seven jumbo packets, and no controller
	// grew into the room that others left.
	burstBytes = maxBurst * defaultPacket
)

// A burst lets several packets be sent together. After it the pacer waits for the time
// that all of them take. If the owner's processors are busy, this saves a turn and a
// system call for each packet after the first.
//
// But a burst queues at the bottleneck, ahead of play. So a burst has no more packets
// than the path passed on within burstTime, as the arrivals of earlier bursts show. That
// number may be far more than our share of the path in that time.
type burst struct {
	wanted bool // the owner wants bursts; set by Bursts
	passed int  // number of packets sent together that arrived within burstTime; 0 = unknown

	// The burst being sent.
	at    instant // send time
	count int     // packets sent so far
	bytes int     // bytes of these packets

	// The burst of the newest ack.
	sent        instant // send time
	first, last instant // arrival of its first and of its last packet, by peerClock
	arrived     int     // number of its packets that arrived
}

// size returns the number of packets that may be sent together if bursts are wanted.
func (b *burst) size() int { return max(b.passed, minBurst) }

// packetSent records that a packet is sent at t.
func (b *burst) packetSent(t instant, bytes int) {
	if t != b.at {
		b.at, b.count, b.bytes = t, 0, 0
	}
	b.count++
	b.bytes += bytes
}

// continues reports whether the next packet may be sent at t, together with the last one.
func (b *burst) continues(t instant) bool {
	return b.wanted && b.count > 0 && t == b.at && b.count < b.size() && b.bytes < burstBytes
}

// arrive records that a packet sent at sent arrived at at. If a burst of the full size
// arrived within burstTime, the size doubles. If a burst took longer, the size falls to
// the number of its packets that arrived in time.
func (b *burst) arrive(sent, at instant) {
	if sent != b.sent {
		b.sent = sent
		b.first = at
		b.last = at
		b.arrived = 0
	}
	b.first, b.last = min(b.first, at), max(b.last, at)
	b.arrived++
	switch {
	case b.last-b.first > burstTime:
		b.passed = min(b.passed, b.arrived-1)
	case b.arrived == b.size():
		b.passed = min(2*b.arrived, maxBurst)
	}
}

// train counts a train as a burst of trainPackets. Without this, each of many connections
// that begin to send bulk together would take four round trips, at one or two packets per
// system call, to learn how long bursts may be.
func (b *burst) train(t Train) {
	if t.Whole && t.Span <= burstTime {
		b.passed = max(b.passed, trainPackets)
	}
}

// lost halves the size after a loss, because a queue may have been too short for the
// burst.
func (b *burst) lost() { b.passed /= 2 }
