package bunch

import "time"

const (
	// darkTimeouts is the number of probe timeouts without an ack after which the path is
	// considered out. If only one ack was lost, the next one arrives sooner.
	darkTimeouts = 2
	// carrierTime is the minimum time without an ack or an arrival after which a path is
	// dark if its carrier reports fates. Such a carrier hands over to the other one sooner,
	// unless the other one is silent as well.
	carrierTime = time.Second
)

// darkTime returns the time without an ack after which the path is dark. Messages that have
// waited in the dark for longer are stale.
func (c *Conn) darkTime() time.Duration { return darkTimeouts * c.pto() }

// dark reports whether the path is out: nothing was acknowledged for darkTime. If the
// carrier reports fates, nothing may have arrived either, for at least carrierTime.
//
// In the dark only probes are sent. Any other packet would be lost, or would wait in the
// carrier or in a sleeping peer, where newer messages cannot replace it.
//
// Datagrams of other machines are no sign that the path is back. They may have been sent
// outside the carrier, which is still blocked.
//
// dark does not count probe timeouts, because each packet that is sent restarts them.
func (c *Conn) dark() bool {
	patience := c.darkTime()
	heard := max(c.loss.unanswered, c.path.since)
	if c.path.Fates {
		patience = max(patience, carrierTime)
		heard = max(heard, c.path.arrived)
	}
	return c.sent.flying > 0 && c.now-heard >= patience
}

// asksOften reports whether unreliable or tracked messages wait in the dark. They age until
// this side learns that the path is back, so it asks twice per probe timeout. If it asked
// less often, a carrier with nothing to send would back off.
//
// It asks with packets without bunches. In the dark, nothing frees the bytes that packets
// take of the carrier's window.
func (c *Conn) asksOften() bool {
	return c.unreliables.messages+c.tracked.waiting.len() > 0 && c.dark()
}

// leaveDark is called when an event would end an outage. If there was one, unreliable and
// tracked messages that have waited for longer than darkTime become stale.
func (c *Conn) leaveDark() {
	if c.dark() {
		c.saturation.staleBefore = c.now - c.darkTime()
	}
}
