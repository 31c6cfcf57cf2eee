package sealed

import "time"

// maxDirect packets leave in one Flush, and none after one that has bulk: the goroutine sends what is left, so that no tick
// works for bulk.
const maxDirect = 8

// Flush has play leave at once, in the place of the goroutine, where nothing blocks: the socket has a call that does not, and
// nobody else sends. All else it leaves to the goroutine. The lock is held, and released.
func (c *Carrier) Flush() {
	c.session.Wake()
	if !c.direct() {
		c.mu.Unlock()
		c.wake()
		return
	}
	now := time.Now()
	c.follow(now)
	c.collectPlay(now)
	next, ok := c.session.NextTimeout()
	woken := c.config.Turned != nil && c.config.Turned()
	c.mu.Unlock()
	if woken {
		c.config.Woken()
	}
	switch {
	case c.transmit() || ok && !next.After(now):
		c.wake()
	case ok:
		c.wakeAt(next)
	}
}

// direct gets a caller the token, when it may send.
func (c *Carrier) direct() bool {
	if c.session.State() != Open || !c.send.token.try() {
		return false
	}
	if !c.send.writer.blocks() {
		return true
	}
	if c.send.token.release() {
		c.wake()
	}
	return false
}

// collectPlay builds what may leave in one Flush.
func (c *Carrier) collectPlay(now time.Time) {
	b, most := c.begin()
	for bulk, ok := false, true; ok && !bulk && len(b.built) < maxDirect; {
		var p built
		if p.packet, p.number, bulk, ok = c.session.BuildPlay(now, b.room(most), most); ok {
			b.add(p)
		}
	}
}
