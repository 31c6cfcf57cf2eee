package bunch

import "time"

// darkTimeouts is after how many probe timeouts without an answer the path counts as out: one lost ack makes less.
const darkTimeouts = 2

// darkTime is how long an outage takes to be seen.
func (c *Conn) darkTime() time.Duration { return darkTimeouts * c.pto() }

// dark reports whether the path is out: for so long nothing was acknowledged. What leaves now would be lost, or wait in order
// inside the carrier, where nothing old makes room for the new; so only probes leave. Datagrams of others that
// arrive are no answer: they may have left beside the carrier, which is still blocked. It counts time, for a timeout begins
// anew with each packet that leaves. A carrier that tells fates has a gate of its own.
func (c *Conn) dark() bool {
	silent := c.now - max(c.loss.unanswered, c.way.since)
	return !c.way.Fates && c.sent.flying > 0 && silent >= c.darkTime()
}

// asksOften reports whether unreliable or tracked messages wait in the dark: their age is how late the light is seen, and they would have
// left at each tick. So a packet without bunches asks twice in a probe timeout: less than that, and a carrier that hears of
// nothing to send backs off. It is small, for what it takes of the carrier's window stays taken.
func (c *Conn) asksOften() bool {
	return c.unreliables.messages+c.tracked.waiting.len() > 0 && c.dark()
}

// seeLight notes what ends an outage, if there is one: unreliable messages that have waited for longer than it takes to be
// seen are stale.
func (c *Conn) seeLight() {
	if c.dark() {
		c.saturation.stale = c.now - c.darkTime()
	}
}

// dropStale drops the unreliable messages at the head of ch that waited through an outage.
func (c *Conn) dropStale(ch *channel) {
	for ch.unreliable.len() > 0 && ch.unreliable.peek().at < c.saturation.stale {
		c.dropUnreliable(ch)
	}
}
