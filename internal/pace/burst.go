package pace

const (
	// leastBurst is how many packets may leave together at least when the owner wants bursts (BBR.send_quantum of
	// draft-ietf-ccwg-bbr). A single packet would show nothing about longer bursts.
	leastBurst = 2
	// mostBurst is how many packets may leave together at most: as many as package sealed gives to the system in one call.
	mostBurst = 16
	// burstBytes is after how many bytes a burst ends, so that jumbo packets do not make it longer: in a crowd of two hundred, whose shares are
	// less than a MB/s, seven of them took 90 ms to pay for, and nobody grew into the room that others left.
	burstBytes = mostBurst * defaultPacket
)

// burst lets several packets leave together, after which the pacer waits for the time that all of them take. An owner whose processors
// are busy saves a turn and a system call for each further packet. But a burst queues at the bottleneck, in front of play: so it is no
// longer than what the path has passed on within burstTime, as the arrivals of earlier bursts show. That may be far more than our share of
// a path carries in that time.
type burst struct {
	wanted bool // by the owner
	passed int  // how many packets that left together have arrived within burstTime; 0 = not known

	// The packets that leave now.
	at    instant // when they leave
	count int     // of them
	bytes int     // of them

	// The packets that left together and of which the newest ack tells.
	sent        instant // when they left
	first, last instant // arrivals of the first and the last of them
	arrived     int     // of them
}

// size returns how many packets may leave together if bursts are wanted.
func (b *burst) size() int { return max(b.passed, leastBurst) }

// leave notes that a packet of so many bytes leaves.
func (b *burst) leave(t instant, bytes int) {
	if t != b.at {
		b.at, b.count, b.bytes = t, 0, 0
	}
	b.count++
	b.bytes += bytes
}

// goesOn reports whether the next packet may leave together with the last one.
func (b *burst) goesOn(t instant) bool {
	return b.wanted && b.count > 0 && t == b.at && b.count < b.size() && b.bytes < burstBytes
}

// arrive notes an arrival. A burst of the full size that has come within burstTime doubles the size. One that took longer was too long by
// the packets that came later.
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

// train notes that a train arrived, as a burst of trainPackets. Without it many connections that begin to send bulk at once would need four
// round trips each, at a packet or two a system call, to learn how long bursts may be.
func (b *burst) train(t Train) {
	if t.Whole && t.Span <= burstTime {
		b.passed = max(b.passed, trainPackets)
	}
}

// lost halves the size, for a queue may have been too short for the burst.
func (b *burst) lost() { b.passed /= 2 }
