package bunch

import "time"

const (
	// darkTimeouts is after how many probe timeouts without an ack the path is
	// considered out. If only one ack was lost, the next arrives sooner.
	darkTimeouts = 2
	// carrierTime is the least time without an ack and without an arrival after
	// which a path is dark whose carrier reports fates. Such a carrier hands
	// over to the other one sooner, unless that one is silent, too.
	carrierTime = time.Second
)

// darkTime returns the time without an ack after which the path is dark, and
// after which messages that wait in the dark are stale.
func (c *Conn) darkTime() time.Duration { return darkTimeouts * c.pto() }

// dark reports whether the path is out: nothing was acknowledged for darkTime. If the
// carrier reports fates, nothing has arrived either, for at least carrierTime. A packet
// that is sent now would be lost, or wait in the carrier or in a sleeping peer, where new
// messages do not replace old ones. So only probes are sent. The arrival of datagrams of
// others is no answer: they may have been sent beside the carrier, which is still blocked.
// dark does not count probe timeouts, because each packet that is sent restarts them.
func (c *Conn) dark() bool {
	patience, heard := c.darkTime(), max(c.loss.unanswered, c.path.since)
	if c.path.Fates {
		patience, heard = max(patience, carrierTime), max(heard, c.path.arrived)
	}
	return c.sent.flying > 0 && c.now-heard >= patience
}

// asksOften reports whether unreliable or tracked messages wait in the dark. They grow old until
// this side learns that the path is back, so it asks twice in a probe timeout; if it asked less
// often, a carrier with nothing to send would back off. It asks with packets without bunches,
// because in the dark the bytes that packets take of the carrier's window are not freed.
func (c *Conn) asksOften() bool {
	return c.unreliables.messages+c.tracked.waiting.len() > 0 && c.dark()
}

// leaveDark is called when something ends an outage, if there is one. Unreliable
// and tracked messages that have waited for longer than darkTime are then stale.
func (c *Conn) leaveDark() {
	if c.dark() {
		c.saturation.stale = c.now - c.darkTime()
	}
}
