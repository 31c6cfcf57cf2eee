package pace

const (
	// minBurst is how many packets may always be sent together if the owner wants bursts
	// (BBR.send_quantum of draft-ietf-ccwg-bbr). With single packets we would learn nothing about
	// longer bursts.
	minBurst = 2

	// maxBurst is how many packets may ever be sent together. It's as many as package sealed passes
	// to the system in a single call.
	maxBurst = 16

	// burstBytes ends a burst, so that it doesn't get longer with jumbo packets. Before we had
	// this, the pacer paused for 90 ms after seven jumbo packets among two hundred controllers
	// with less than a MB/s each, and no controller grew into the room that others left.
	burstBytes = maxBurst * defaultPacket
)

// A burst lets us send several packets together, after which the pacer waits for as long as all
// of them take. If the owner's processors are busy, this saves a turn and a system call for each
// packet after the first.
//
// But a burst queues at the bottleneck, where play (the game's own traffic) has to wait behind
// it. So we never send more together than the path has passed on within burstTime, as we see
// from when earlier bursts arrived. That may be far more than our share of the path in that
// time.
type burst struct {
	wanted bool // the owner wants bursts; set by Bursts
	passed int  // how many packets sent together have arrived within burstTime; 0 = unknown

	// The burst being sent.
	at    instant // when it was sent
	count int     // how many packets of it were sent so far
	bytes int     // the same in bytes

	// The burst of the newest ack.
	sent        instant // when it was sent
	first, last instant // when its first and its last packet arrived, by peerClock
	arrived     int     // how many of its packets arrived
}

// size returns how many packets may be sent together if bursts are wanted.
func (b *burst) size() int { return max(b.passed, minBurst) }

// packetSent is called when a packet is sent at t.
func (b *burst) packetSent(t instant, bytes int) {
	if t != b.at {
		b.at, b.count, b.bytes = t, 0, 0
	}
	b.count++
	b.bytes += bytes
}

// continues reports whether the next packet may be sent at t, along with the one before.
func (b *burst) continues(t instant) bool {
	return b.wanted && b.count > 0 && t == b.at && b.count < b.size() && b.bytes < burstBytes
}

// arrive is called when a packet has arrived. If a burst of full size has made it within
// burstTime, the next may have twice as many packets. If a burst has taken longer, the next may
// have only as many as have made it in time.
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

// train counts a train as a burst of trainPackets. Otherwise, when many connections begin to
// send bulk at once, each would need four round trips at one or two packets per system call to
// learn how long bursts may be.
func (b *burst) train(t Train) {
	if t.Whole && t.Span <= burstTime {
		b.passed = max(b.passed, trainPackets)
	}
}

// lost halves the size of bursts after a loss, since some queue may have been too short for one.
func (b *burst) lost() { b.passed /= 2 }
