package bunch

import "time"

const (
	// outageTimeouts is how many probe timeouts must pass without an ack before we consider it
	// an outage. If only an ack was lost, the next one arrives sooner.
	outageTimeouts = 2

	// minCarrierOutage is the minimum time without acks and arrivals before we consider it an
	// outage if the carrier reports fates. Such a carrier hands over to the other one (QUIC or
	// sealed packets) sooner than that, unless the other one is silent as well.
	minCarrierOutage = time.Second
)

// outageAfter returns how long the peer may acknowledge nothing before we consider it an outage.
// During an outage, a message becomes stale after the same time.
func (c *Conn) outageAfter() time.Duration { return outageTimeouts * c.pto() }

// inOutage reports whether there's an outage: something is in flight, but nothing has been
// acknowledged for outageAfter. If the carrier reports fates, nothing may have arrived either,
// and it takes at least minCarrierOutage.
//
// During an outage we send nothing but probes. Other packets would be lost, or they'd be stuck
// in the carrier or with a suspended peer, where we can't replace them with anything newer.
//
// Datagrams of other protocols that share the path don't end an outage when they arrive, because
// they may have bypassed a carrier that is still blocked.
func (c *Conn) inOutage() bool {
	// We can't count probe timeouts instead, because they start over with each packet we send.
	limit := c.outageAfter()
	heard := max(c.loss.silentSince, c.path.since)
	if c.path.Fates {
		limit = max(limit, minCarrierOutage)
		heard = max(heard, c.path.lastArrival)
	}
	return c.sent.packetsInFlight > 0 && c.now-heard >= limit
}

// probesFrequently reports whether we probe twice per probe timeout, without backing off. We do
// so while unreliable or tracked messages wait during an outage, because they keep aging until we
// learn that the path is back. A carrier with nothing to send would back off if we probed any
// less often.
//
// These probes carry no bunches. During an outage nothing is acknowledged, so bunches would use
// up the carrier's window.
func (c *Conn) probesFrequently() bool {
	return c.unreliables.messages+c.tracked.waiting.len() > 0 && c.inOutage()
}

// endOutage is called on events that end an outage. If there is one, unreliable and tracked
// messages that have waited for longer than outageAfter become stale.
func (c *Conn) endOutage() {
	if c.inOutage() {
		c.expiry.outageBefore = c.now - c.outageAfter()
	}
}
