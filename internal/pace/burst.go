package pace

const (
	// leastBurst is how many packets may leave together at least when the owner wants bursts (BBR.send_quantum of
	// draft-ietf-ccwg-bbr). A single packet would show nothing about longer bursts.
	leastBurst = 2
	// mostBurst is how many packets may leave together at most: as many as package sealed gives to the system in one call.
	mostBurst = 16
	// burstBytes is after how many bytes a burst ends, so that jumbo packets do not make it longer. Without it, in a crowd of two hundred with
	// less than a MB/s each, the pacer paused for 90 ms after seven jumbo packets, and nobody grew into the room that others left.
	burstBytes = mostBurst * defaultPacket
)

// burst lets several packets leave together; then the pacer waits for the time that all of them take. An owner whose processors are busy
// saves a turn and a system call for each packet after the first. But a burst queues at the bottleneck, in front of play. So it has no more
// packets than the path has passed on within burstTime, as the arrivals of earlier bursts show. That may be far more than our share of the
// path is in that time.
type burst struct {
	wanted bool // by the owner
	passed int  // how many packets that left together have arrived within burstTime; 0 = not known

	// The burst that leaves now.
	at    instant // when it leaves
	count int     // packets that have left
	bytes int     // bytes of these

	// The burst that the newest ack is about.
	sent        instant // when it left
	first, last instant // when its first and its last packet arrived, as peerClock tells it
	arrived     int     // packets that have arrived
}

// size returns how many packets may leave together if bursts are wanted.
func (b *burst) size() int { return max(b.passed, leastBurst) }

// leave notes that a packet leaves.
func (b *burst) leave(t instant, bytes int) {
	if t != b.at {
		b.at, b.count, b.bytes = t, 0, 0
	}
	b.count++
	b.bytes += bytes
}

// goesOn reports whether the next packet may leave at t, together with the last one.
func (b *burst) goesOn(t instant) bool {
	return b.wanted && b.count > 0 && t == b.at && b.count < b.size() && b.bytes < burstBytes
}

// arrive notes that a packet which left at sent has arrived. When a burst of the full size has arrived within burstTime, the size doubles. When
// one took longer, the size falls to the packets that came in time.
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

// train counts a train as a burst of trainPackets. Otherwise connections that begin to send bulk together would each take four round trips, at a
// packet or two a system call, to learn how long bursts may be.
func (b *burst) train(t Train) {
	if t.Whole && t.Span <= burstTime {
		b.passed = max(b.passed, trainPackets)
	}
}

// lost halves the size when a packet is lost: a queue may have been too short for the burst.
func (b *burst) lost() { b.passed /= 2 }
