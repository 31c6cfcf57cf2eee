package sealed

import "time"

const (
	// minPing is the shortest time between two of an end's pings over QUIC.
	minPing = 50 * time.Millisecond

	// searchTrips is the number of round trips that quic-go waits between two probes of its
	// path MTU discovery.
	searchTrips = 5
	// searchPings is the number of consecutive pings without a larger packet after which
	// the search counts as over. quic-go abandons a size after three lost probes, and pings
	// may be lost as well.
	searchPings = 8
)

// pinger decides when a carrier calls Config.Ping.
type pinger struct {
	every        time.Duration // Config.PingTime; 0 = no pings because of traffic alone
	lastPing     time.Time     // when the last ping was sent
	receivedThen uint64        // Stats.Received at that time

	// QUIC's search for the path MTU.
	searchedSize int // size of QUIC's largest packet at the last ping for the search
	sameSize     int // consecutive pings that found the same size
}

// at returns when a ping is due because no ack has arrived. ok is false if the session
// waits for none.
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

// due reports whether a ping must be sent now. If so, it records the ping as sent.
//
// The pings at every Config.PingTime keep QUIC from becoming idle at both ends, because the
// other end receives the pings and this end their acks. It is therefore enough if one end
// sends them.
func (p *pinger) due(now time.Time, s *Session) bool {
	since := now.Sub(p.lastPing)
	if !s.started || since < minPing {
		return false
	}
	at, waits := p.ackOverdueAt(s)
	quiet := waits && !now.Before(at)
	overdue, ok := s.liveness.overdueAt(s.pto())
	if ok && s.now >= overdue && p.lastPing.Before(s.time(s.liveness.lastReceived)) {
		quiet = true // only once until the next packet is received
	}
	traffic := s.stats.Received != p.receivedThen || s.records.packetsInFlight > 0
	if !quiet && (!traffic || p.every == 0 || since < p.every) {
		return false
	}
	p.lastPing = now
	p.receivedThen = s.stats.Received
	return true
}

// searches reports whether a ping must be sent for QUIC's path MTU discovery. If so, it
// records the ping as sent. maxPacket returns the size of the largest packet that QUIC has
// found the path to take.
//
// QUIC probes only when it sends other packets, which it hardly does while sealed packets
// are used. With the pings of PingTime alone, a transfer's packets would reach their full
// size only after several of those.
//
// Play needs no larger packets, and neither does bulk in jumbo packets. The pings of two
// hundred such transfers, with the packets that quic-go sends for each, took a twelfth of
// the transfers' time.
func (p *pinger) searches(now time.Time, s *Session, maxPacket func() int) bool {
	if p.sameSize >= searchPings || s.bulkInFlight() == 0 || s.mtu.takesJumbo() {
		return false
	}
	if now.Sub(p.lastPing) < max(searchTrips*s.rtt(), minPing) {
		return false
	}
	if size := maxPacket(); size != p.searchedSize {
		p.searchedSize = size
		p.sameSize = 0
	} else {
		p.sameSize++
	}
	p.lastPing = now
	p.receivedThen = s.stats.Received
	return true
}

// moved is called when the path has changed. QUIC then searches again on the new one.
func (p *pinger) moved() { p.sameSize = 0 }
