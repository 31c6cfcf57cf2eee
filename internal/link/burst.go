package link

const (
	// maxBurst is the maximum number of datagrams sent back to back. The peer's quic-go
	// queues 128 datagrams and drops any more.
	maxBurst = 96
	// minBurst is the size below which losses do not reduce a burst.
	minBurst = 32
	// burstStep is added to the size of the next burst if no packet was lost.
	burstStep = 8
)

// burst counts the datagrams sent without a pause and limits their number.
//
// A loss halves the limit. Either the path dropped the packets or the receiver is too slow,
// and both call for shorter bursts.
type burst struct {
	sent int    // datagrams sent in this burst
	size int    // maximum number of datagrams in this burst
	lost uint64 // packets the machines had counted as lost at the last rest
}

// full counts a datagram and reports whether a rest is due.
func (b *burst) full() bool {
	b.sent++
	return b.sent >= b.size
}

// rest starts the next burst. lost is the number of packets the machines have counted as
// lost.
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
