package sealed

import "time"

const (
	// minPing is the shortest time between two of our pings over QUIC.
	minPing = 50 * time.Millisecond

	// searchTrips is how many round trips quic-go waits between two probes of its path MTU
	// discovery.
	searchTrips = 5
	// searchPings is how many pings in a row may find no larger packet before we take the
	// search to be over. quic-go gives up on a size after three lost probes, but pings may be
	// lost as well.
	searchPings = 8
)

// A pinger decides when to send a ping over QUIC (see Config.Ping).
type pinger struct {
	every        time.Duration // Config.PingTime; 0 means no pings because of traffic alone
	lastPing     time.Time
	receivedThen uint64 // Stats.Received at lastPing

	// QUIC's search for the path MTU.
	knownSize int // size of QUIC's largest packet at the last ping for the search
	sameSize  int // consecutive pings since it last changed
}

// due reports whether a ping must be sent because the peer is overdue, or because of PingTime.
//
// The pings at every PingTime keep QUIC from becoming idle. They do so at both ends, because
// the other end receives the pings and we receive their acks, so it's enough if one end sends
// them.
func (p *pinger) due(now time.Time, s *Session) bool {
	sincePing := now.Sub(p.lastPing)
	if !s.started || sincePing < minPing {
		return false
	}
	if at, ok := p.ackOverdueAt(s); ok && !now.Before(at) {
		return true
	}
	if at, ok := s.liveness.overdueAt(s.pto()); ok && s.now >= at {
		// Only ping once until the next packet arrives.
		if p.lastPing.Before(s.time(s.liveness.lastReceived)) {
			return true
		}
	}
	traffic := s.stats.Received != p.receivedThen || s.records.packetsInFlight > 0
	return traffic && p.every != 0 && sincePing >= p.every
}

// ackOverdueAt returns when a ping is due because no ack has arrived. ok is false if the
// session isn't waiting for one.
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
// when it has other packets to send, which is rare while we use sealed packets. With nothing
// but the pings of PingTime, several of those would pass before the packets of a transfer
// reached their full size.
func (p *pinger) searchDue(now time.Time, s *Session) bool {
	// Play needs no larger packets. Neither does bulk in jumbo packets: the pings of two
	// hundred such transfers, with the packets that quic-go sends for each, took a twelfth of
	// their time.
	if p.sameSize >= searchPings || s.bulkInFlight() == 0 || s.mtu.takesJumbo() {
		return false
	}
	return now.Sub(p.lastPing) >= max(searchTrips*s.rtt(), minPing)
}

// noteSize is called when a ping for the search is sent. size is that of the largest packet
// that QUIC has found the path to take.
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
