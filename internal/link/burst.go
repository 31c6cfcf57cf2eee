package link

const (
	maxBurst  = 96 // fits into the peer's quic-go, which queues 128 datagrams and drops the rest
	minBurst  = 32 // losses don't reduce the size of a burst below this
	burstStep = 8  // how much larger the next burst may be if nothing was lost
)

// A burst limits how many datagrams we send without a pause. The limit is halved when packets are
// lost, because shorter bursts help both a path that drops packets and a slow receiver.
type burst struct {
	sent int    // datagrams sent since the last pause
	size int    // how many may be sent before the next
	lost uint64 // how many packets the machines had lost by the last pause
}

// add adds a datagram, and reports whether that completes the burst.
func (b *burst) add() bool {
	b.sent++
	return b.sent >= b.size
}

// pause is called when we stop sending, so that the next datagram begins a burst of the same size.
func (b *burst) pause() { b.sent = 0 }

// next begins the next burst. lost is how many packets the machines have lost so far.
func (b *burst) next(lost uint64) {
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
