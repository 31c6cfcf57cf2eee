package link

const (
	// maxBurst is how many datagrams may be sent back to back. The peer's
	// quic-go queues 128 and drops further ones.
	maxBurst = 96
	// minBurst is the least size to which losses reduce a burst.
	minBurst = 32
	// burstStep is by how many datagrams the next burst is longer if there was no loss.
	burstStep = 8
)

// burst counts the datagrams sent without a pause between them, and limits
// their number. Losses halve the limit, because the path may have dropped the
// packets, or the receiver may be too slow; both need shorter bursts.
type burst struct {
	sent, size int    // datagrams: of this burst so far, and its limit
	lost       uint64 // packets that the machines had counted as lost at the last rest
}

// full counts a datagram, and reports whether a rest is due.
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

// short reports whether losses have reduced the size of bursts.
func (b *burst) short() bool { return b.size < maxBurst }
