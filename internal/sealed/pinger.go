package sealed

import "time"

const (
	// minPing is the shortest time between two pings over QUIC of either end.
	minPing = 50 * time.Millisecond

	// searchTrips is how many round trips quic-go waits between two probes of path MTU discovery.
	searchTrips = 5
	// searchPings is how many pings in a row find no larger packet when the search counts as over. quic-go gives a size up when three probes
	// were lost, and pings may be lost as well.
	searchPings = 8
)

// pinger decides when a carrier calls Config.Ping.
type pinger struct {
	every    time.Duration // Config.PingTime; 0 = not for traffic alone
	last     time.Time     // when the last ping left
	received uint64        // packets that the session had received then

	// QUIC's search for the path MTU.
	size int // of the largest packets, when searches was last true
	same int // how often in a row size was the same then
}

// at returns when a ping is due because nothing was acked, if an ack is awaited.
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

// due reports whether a ping must leave now, and notes that it does. The pings of each Config.PingTime keep QUIC at both ends from going idle:
// the far end hears them, this end their acks. So one end is enough.
func (p *pinger) due(now time.Time, s *Session) bool {
	since := now.Sub(p.last)
	if !s.started || since < minPing {
		return false
	}
	at, waits := p.at(s)
	quiet := waits && !now.Before(at)
	if at, ok := s.hearing.overdueAt(s.pto()); ok && s.now >= at && p.last.Before(s.time(s.hearing.received)) {
		quiet = true // once until a packet is received again
	}
	traffic := s.stats.Received != p.received || s.records.flying > 0
	if !quiet && (!traffic || p.every == 0 || since < p.every) {
		return false
	}
	p.last, p.received = now, s.stats.Received
	return true
}

// searches reports whether a ping must leave for path MTU discovery, and notes that it does. most returns the largest packet in bytes that QUIC
// has found the path to take. QUIC probes only when it sends anyway, which it hardly does beside sealed packets: with the pings
// of PingTime alone a transfer's packets would be full only after several of those. Play has small packets and needs no larger ones, and bulk
// in jumbo packets does not either: the pings of two hundred such transfers, and what quic-go sends with each, took a twelfth of their time.
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

// moved notes that the path is another one, on which QUIC searches anew.
func (p *pinger) moved() { p.same = 0 }
