package stream

import "time"

const (
	// sliceThreshold is how many slices sent later must have arrived before one counts as lost (RFC 9002: kPacketThreshold).
	// It holds within a chunk, whose acks tell of all its slices; others may tell of theirs in an ack that was lost.
	sliceThreshold = 3
	// sliceProbes may pass every gate after a probe timeout.
	sliceProbes = 2
	// sliceTimeouts in a row are an outage: from then on only probes leave. quic-go's window does not shrink on timeouts.
	sliceTimeouts = 2
)

// sliceLosses decides which slices are lost, from acks (RFC 9002, section 6.1) and from silence (6.2).
type sliceLosses struct {
	largest   uint64    // one above the newest sending that arrived
	slack     int       // eighths of the round trip that a later arrival is waited for; at most 8
	reordered bool      // a loss was spurious: the threshold in slices is off
	at        time.Time // when the next counts as lost; zero = none does
	lastSent  time.Time
	timeouts  int // in a row
	probes    int // that may leave now

	lost, spurious, probed uint64
}

// spuriously notes that a slice arrived which counted as lost: packets overtake each other by more than was allowed for.
func (l *sliceLosses) spuriously() {
	l.spurious++
	l.reordered = true
	l.slack = min(2*l.slack, 8)
}

// heard notes that an ack brought news.
func (l *sliceLosses) heard() { l.timeouts, l.probes = 0, 0 }

// delay is how long after its sending a slice is given up when a later one has arrived.
func (l *sliceLosses) delay(g *sliceGate) time.Duration {
	rtt := max(g.Smoothed, g.Latest)
	return rtt + max(rtt*time.Duration(l.slack)/8, time.Millisecond) + sliceAckDelay
}

// detect gives to lose the numbers of the slices that are lost by now. ID and high name the chunk of the ack that was heard
// and its newest sending that arrived; high 0 = none was.
func (l *sliceLosses) detect(now time.Time, f *sliceFlight, g *sliceGate, id uint16, high uint64, lose func(number uint64)) {
	l.at = time.Time{}
	first, ok := f.firstFlying()
	if !ok {
		return
	}
	delay := l.delay(g)
	for n := first.number; n < l.largest; n++ {
		p := f.at(n)
		if p.fate != sliceFlying {
			continue
		}
		due := p.at.Add(delay)
		overtaken := !l.reordered && p.id == id && n+sliceThreshold < high
		switch {
		case overtaken, !due.After(now):
			l.lost++
			lose(n)
		case l.at.IsZero() || due.Before(l.at):
			l.at = due
		}
	}
}

// timeoutAt returns when the next probe is due.
func (l *sliceLosses) timeoutAt(f *sliceFlight, g *sliceGate) (time.Time, bool) {
	if f.count == 0 || l.probes > 0 {
		return time.Time{}, false
	}
	return l.lastSent.Add(g.Backoff(l.timeouts, sliceAckDelay)), true
}

// timeout has the oldest slices leave once more.
func (l *sliceLosses) timeout(f *sliceFlight, lose func(number uint64)) {
	l.timeouts++
	l.probed++
	l.probes = sliceProbes
	for range sliceProbes {
		if p, ok := f.firstFlying(); ok {
			lose(p.number)
		}
	}
}
