package pace

const (
	// leastBurst is how many packets may be sent together at least if the owner
	// wants bursts (BBR.send_quantum of draft-ietf-ccwg-bbr). A single packet
	// would show nothing about longer bursts.
	leastBurst = 2
	// mostBurst is how many packets may be sent together at most: as many as
	// package sealed passes to the system in one call.
	mostBurst = 16
	// burstBytes is after how many bytes a burst ends, so that jumbo packets do not make it
	// longer. Without it, among two hundred controllers with less than a MB/s each, the pacer
	// paused for 90 ms after seven jumbo packets, and nobody grew into the room that others left.
	burstBytes = mostBurst * defaultPacket
)

// A burst lets several packets be sent together, after which the pacer waits for the time that
// all of them take. If an owner's processors are busy, this saves a turn and a system call for
// each packet after the first. But a burst queues at the bottleneck, in front of play. So it
// has no more packets than the path has passed on within burstTime, as the arrivals of earlier
// bursts show. That may be far more than our share of the path is in that time.
type burst struct {
	wanted bool // the owner wants bursts; set by Bursts
	passed int  // how many packets that were sent together have arrived within burstTime; 0 = unknown

	// The burst that is being sent.
	at    instant // when it is sent
	count int     // packets sent so far
	bytes int     // bytes of these packets

	// The burst of the newest ack.
	sent        instant // when it was sent
	first, last instant // when its first and its last packet arrived, by peerClock
	arrived     int     // how many of its packets have arrived
}

// size returns how many packets may be sent together if bursts are wanted.
func (b *burst) size() int { return max(b.passed, leastBurst) }

// leave records that a packet is sent at t.
func (b *burst) leave(t instant, bytes int) {
	if t != b.at {
		b.at, b.count, b.bytes = t, 0, 0
	}
	b.count++
	b.bytes += bytes
}

// goesOn reports whether the next packet may be sent at t, together with the last one.
func (b *burst) goesOn(t instant) bool {
	return b.wanted && b.count > 0 && t == b.at && b.count < b.size() && b.bytes < burstBytes
}

// arrive records that a packet which was sent at sent has arrived at at. If a
// burst of the full size has arrived within burstTime, the size doubles. If one
// took longer, the size falls to the number of packets that arrived in time.
func (b *burst) arrive(sent, at instant) {
	if sent != b.sent {
		b.sent, b.first, b.last, b.arrived = sent, at, at, 0
	}
	b.first, b.last = min(b.first, at), max(b.last, at)
	b.arrived++
	switch {
	case b.last-b.first > burstTime:
		b.passed = min(b.passed, b.arrived-1)
	case b.arrived == b.size():
		b.passed = min(2*b.arrived, mostBurst)
	}
}

// train counts a train as a burst of trainPackets. Otherwise each of many
// connections that begin to send bulk together would take four round trips, at
// a packet or two per system call, to learn how long bursts may be.
func (b *burst) train(t Train) {
	if t.Whole && t.Span <= burstTime {
		b.passed = max(b.passed, trainPackets)
	}
}

// lost halves the size because a packet was lost: a queue may have been too short for the burst.
func (b *burst) lost() { b.passed /= 2 }
