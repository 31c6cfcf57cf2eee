package sealed

import "time"

const (
	// minPing is the minimum time between two of our pings over QUIC. It's about a tick or two, so
	// pings never take more than a small share of the path.
	minPing = 50 * time.Millisecond

	// searchTrips is the number of round trips that quic-go waits between two probes of its path
	// MTU discovery.
	searchTrips = 5
	// searchPings is the number of consecutive pings without a larger packet size after which
	// we consider the search finished. quic-go gives up on a size after three lost probes, but
	// pings may be lost as well.
	searchPings = 8
)

// A pinger decides when to send a ping over QUIC (see Config.Ping).
type pinger struct {
	every        time.Duration // Config.PingTime; 0 means that traffic alone causes no pings
	lastPing     time.Time
	receivedThen uint64 // Stats.Received at lastPing

	// QUIC's search for the path MTU.
	knownSize int // size of QUIC's largest packet at the last ping for the search
	sameSize  int // consecutive pings since it last changed
}

// due reports whether a ping must be sent because the peer is overdue, or because of PingTime.
//
// The pings every PingTime keep QUIC from becoming idle. It's enough if one end sends them,
// because the other end receives the pings and this one receives their acks.
func (p *pinger) due(now time.Time, s *Session) bool {
	sincePing := now.Sub(p.lastPing)
	if !s.started || sincePing < minPing {
		return false
	}
	if at, ok := p.ackOverdueAt(s); ok && !now.Before(at) {
		return true
	}
	if at, ok := s.liveness.overdueAt(s.pto()); ok && s.now >= at {
		// Send only one ping until the next packet arrives.
		if p.lastPing.Before(s.time(s.liveness.lastReceived)) {
			return true
		}
	}
	traffic := s.stats.Received != p.receivedThen || s.records.packetsInFlight > 0
	return traffic && p.every != 0 && sincePing >= p.every
}

// ackOverdueAt returns when a ping is due because no ack has arrived. ok is false if no ack is
// awaited.
func (p *pinger) ackOverdueAt(s *Session) (at time.Time, ok bool) {
	if !s.started || !s.awaitsAck() {
		return time.Time{}, false
	}
	wait := s.probeAfter()
	at = s.time(s.liveness.lastAck + wait)
	if again := p.lastPing.Add(max(wait, minPing)); again.After(at) {
		at = again
	}
	return at, true
}

// searchDue reports whether a ping must be sent for QUIC's path MTU discovery. QUIC only probes
// when it has other packets to send, which is rare while we use sealed packets. With only a ping
// every PingTime, a transfer would take several of these intervals to reach full packets.
func (p *pinger) searchDue(now time.Time, s *Session) bool {
	// Play needs no larger packets, and neither does bulk in jumbo packets. With 200 transfers in
	// jumbo packets, the pings and quic-go's responses would take 8 % of the CPU time.
	if p.sameSize >= searchPings || s.bulkInFlight() == 0 || s.mtu.takesJumbo() {
		return false
	}
	return now.Sub(p.lastPing) >= max(searchTrips*s.rtt(), minPing)
}

// noteSize is called when a ping for the search is sent. size is the largest packet size that
// QUIC has confirmed for the path.
func (p *pinger) noteSize(size int) {
	if size != p.knownSize {
		p.knownSize = size
		p.sameSize = 0
	} else {
		p.sameSize++
	}
}

// pinged is called when a ping is sent, whatever the reason.
func (p *pinger) pinged(now time.Time, s *Session) {
	p.lastPing = now
	p.receivedThen = s.stats.Received
}

// moved is called when the path has changed. QUIC then starts its search over.
func (p *pinger) moved() { p.sameSize = 0 }
