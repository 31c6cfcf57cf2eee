package bunch

import "time"

const (
	// darkTimeouts is how many probe timeouts must pass without an ack for the path to be out.
	// If it's just an ack that was lost, the next one arrives sooner.
	darkTimeouts = 2

	// carrierTime is how long at least nothing must have been acknowledged or have arrived for
	// the path to be out if its carrier reports fates. Such a carrier hands over to the other
	// one (QUIC or sealed packets) sooner than that, unless the other one is silent as well.
	carrierTime = time.Second
)

// darkTime returns how long we go without an ack before we take the path to be dark. A message
// that has waited for longer than that in the dark is stale.
func (c *Conn) darkTime() time.Duration { return darkTimeouts * c.pto() }

// dark reports whether there's an outage: something is in flight, but nothing has been
// acknowledged for darkTime. If the carrier reports fates, nothing may have arrived either,
// and it takes at least carrierTime.
//
// In the dark we send nothing but probes. Other packets would be lost, or they'd be stuck in
// the carrier or with a peer that sleeps, where we can't replace them with anything newer.
//
// Datagrams of other machines (protocols that share the path) don't end an outage when they
// arrive, since they may have been sent without going through the carrier, which is still
// blocked.
func (c *Conn) dark() bool {
	// Counting probe timeouts wouldn't do, because they start over with each packet we send.
	patience := c.darkTime()
	heard := max(c.loss.silentSince, c.path.since)
	if c.path.Fates {
		patience = max(patience, carrierTime)
		heard = max(heard, c.path.lastArrival)
	}
	return c.sent.flying > 0 && c.now-heard >= patience
}

// probesOften reports whether we probe twice per probe timeout, without backing off. We do if
// unreliable or tracked messages wait in the dark, as they get older until we learn that the
// path is back. A carrier with nothing to send would back off if we asked any less often.
//
// These probes carry no bunches, since in the dark nothing gives back the bytes that they take
// of the carrier's window.
func (c *Conn) probesOften() bool {
	return c.unreliables.messages+c.tracked.waiting.len() > 0 && c.dark()
}

// leaveDark is called on an event that ends an outage if there is one. If so, unreliable and
// tracked messages that have waited for longer than darkTime are stale from now on.
func (c *Conn) leaveDark() {
	if c.dark() {
		c.expiry.outageBefore = c.now - c.darkTime()
	}
}
