package sealed

import "time"

const (
	// minPing is the shortest time between two of an end's pings over QUIC.
	minPing = 50 * time.Millisecond

	// searchTrips is how many round trips quic-go waits between two probes of
	// its path MTU discovery.
	searchTrips = 5
	// searchPings is after how many pings in a row without a larger packet the search counts as
	// over. quic-go abandons a size when three probes were lost, and pings may be lost as well.
	searchPings = 8
)

// pinger decides when a carrier calls Config.Ping.
type pinger struct {
	every    time.Duration // Config.PingTime; 0 = no pings because of traffic alone
	last     time.Time     // when the last ping was sent
	received uint64        // Stats.Received at that time

	// QUIC's search for the path MTU.
	size int // of QUIC's largest packet, at the last ping for the search
	same int // how many pings in a row have found the same size
}

// at returns when a ping is due because no ack has arrived. ok is false if none is awaited.
func (p *pinger) at(s *Session) (at time.Time, ok bool) {
	if !s.started || !s.waiting() {
		return time.Time{}, false
	}
	wait := s.probeAfter()
	at = s.time(s.hearing.heard + wait)
	if again := p.last.Add(max(wait, minPing)); again.After(at) {
		at = again
	}
	return at, true
}

// due reports whether a ping must be sent now, and if so records it as sent. The pings
// of every Config.PingTime keep QUIC from becoming idle at both ends, because the other
// end receives the pings and this end their acks. So it is enough if one end sends them.
func (p *pinger) due(now time.Time, s *Session) bool {
	since := now.Sub(p.last)
	if !s.started || since < minPing {
		return false
	}
	at, waits := p.at(s)
	quiet := waits && !now.Before(at)
	if at, ok := s.hearing.overdueAt(s.pto()); ok && s.now >= at && p.last.Before(s.time(s.hearing.received)) {
		quiet = true // only once until the next packet is received
	}
	traffic := s.stats.Received != p.received || s.records.flying > 0
	if !quiet && (!traffic || p.every == 0 || since < p.every) {
		return false
	}
	p.last, p.received = now, s.stats.Received
	return true
}

// searches reports whether a ping must be sent for QUIC's path MTU discovery, and if so
// records it as sent. most returns the largest packet in bytes that QUIC has found the
// path to take. QUIC probes only when it sends other packets, which it hardly does while
// sealed packets are used. With the pings of PingTime alone, the packets of a transfer
// would reach their full size only after several of those. Play needs no larger packets,
// and bulk in jumbo packets does not either: the pings of two hundred such transfers,
// with what quic-go sends for each, took a twelfth of the transfers' time.
func (p *pinger) searches(now time.Time, s *Session, most func() int) bool {
	if p.same >= searchPings || s.bulkInFlight() == 0 || s.mtu.takesJumbo() || now.Sub(p.last) < max(searchTrips*s.rtt(), minPing) {
		return false
	}
	if size := most(); size != p.size {
		p.size, p.same = size, 0
	} else {
		p.same++
	}
	p.last, p.received = now, s.stats.Received
	return true
}

// moved is called when the path has changed: QUIC searches again on the new one.
func (p *pinger) moved() { p.same = 0 }
