package link

const (
	// maxBurst datagrams may leave back to back: the peer's quic-go holds 128 and drops the newest.
	maxBurst = 96
	// minBurst is what losses shrink a burst to.
	minBurst = 32
	// burstStep is what a burst without a loss adds.
	burstStep = 8
)

// burst counts the datagrams that left without a pause between them. Losses that came up in the meantime halve the
// size, and what halves it may be the wire or a receiver that cannot keep up: the loss does not say, and both want
// shorter bursts.
type burst struct {
	sent, size int
	lost       uint64 // packets that the machines had lost at the last rest
}

// full counts a datagram and reports whether a rest is due.
func (b *burst) full() bool {
	b.sent++
	return b.sent >= b.size
}

// rest starts the next burst. lost is what the machines have lost so far.
func (b *burst) rest(lost uint64) {
	b.sent = 0
	if lost > b.lost {
		b.size = max(b.size/2, minBurst)
	} else {
		b.size = min(b.size+burstStep, maxBurst)
	}
	b.lost = lost
}

// short reports that the last bursts met losses.
func (b *burst) short() bool { return b.size < maxBurst }
