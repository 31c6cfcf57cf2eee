package pace

const (
	// minBurst is how many packets may always be sent together if the owner wants bursts
	// (BBR.send_quantum of draft-ietf-ccwg-bbr). Single packets would show nothing about longer
	// bursts.
	minBurst = 2

	// maxBurst is the maximum number of packets sent together. Package sealed passes as many to the
	// system in a single call.
	maxBurst = 16

	// burstBytes limits the bytes of a burst, so that jumbo packets don't make it longer. Without
	// this limit, when two hundred controllers with less than 1 MB/s each sent bursts of seven
	// jumbo packets, the pacer would pause for 90 ms after each, and no controller would grow into
	// the room that others leave.
	burstBytes = maxBurst * defaultPacket
)

// A burst lets us send several packets together, after which the pacer waits for as long as all of
// them take. On a busy machine, this saves the owner a turn of its loop and a system call for each
// packet after the first.
//
// But a burst queues at the bottleneck, where play (the game's own traffic) has to wait behind it.
// So we never send more together than the path passed on within burstTime, as the arrivals of
// earlier bursts show. That may be far more than our share of the path in that time.
type burst struct {
	wanted bool // the owner wants bursts; set by Bursts
	passed int  // how many packets sent together arrived within burstTime; 0 = unknown

	// The burst being sent.
	at    instant // when it was sent
	count int     // packets of it sent so far
	bytes int     // their bytes

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

// continues reports whether the next packet may be sent at t, together with the previous one.
func (b *burst) continues(t instant) bool {
	return b.wanted && b.count > 0 && t == b.at && b.count < b.size() && b.bytes < burstBytes
}

// arrive is called when a packet arrived. If a full burst arrived within burstTime, the next may
// have twice as many packets. If a burst took longer, the next may have only as many as arrived in
// time.
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

// train counts a train as a burst of trainPackets. Otherwise each of many connections that begin to
// send bulk at once would need four round trips, at one or two packets per system call, to learn
// how long bursts may be.
func (b *burst) train(t Train) {
	if t.Whole && t.Span <= burstTime {
		b.passed = max(b.passed, trainPackets)
	}
}

// lost halves the size of bursts after a loss, since a burst may have overflowed some queue.
func (b *burst) lost() { b.passed /= 2 }
