package link

const (
	// maxBurst is how many datagrams may leave back to back: the peer's quic-go holds 128 and drops the newest.
	maxBurst = 96
	// minBurst is the least size to which losses shrink a burst.
	minBurst = 32
	// burstStep is the number of datagrams by which a burst without a loss lengthens the next one.
	burstStep = 8
)

// burst counts the datagrams that left without a pause between them, and bounds them by size. Losses halve the size: the path may
// have dropped the packets, or a receiver that cannot keep up, and both need shorter bursts.
type burst struct {
	sent, size int
	lost       uint64 // what the machines counted as lost at the last rest
}

// full counts a datagram and reports whether a rest is due.
func (b *burst) full() bool {
	b.sent++
	return b.sent >= b.size
}

// rest starts the next burst. lost is how many packets the machines have counted as lost so far.
func (b *burst) rest(lost uint64) {
	b.sent = 0
	if lost > b.lost {
		b.size = max(b.size/2, minBurst)
	} else {
		b.size = min(b.size+burstStep, maxBurst)
	}
	b.lost = lost
}

// short reports whether losses have shrunk the bursts.
func (b *burst) short() bool { return b.size < maxBurst }
