package stream

import (
	"time"

	"github.com/quivernet/quiver/rpc"
)

// control exchanges the messages about transfers on the control pipe, whose priority is above bulk. Nothing is queued: which message
// is due follows from the state of the transfers, so a slow peer makes nothing pile up. It belongs to the world's goroutine.
type control struct {
	peer    *Peer
	pipe    *rpc.Actor // nil, at a client, until the server has opened it
	greeted bool       // our limits were sent and have not changed since
	full    bool       // the pipe's gate was shut after the last message
}

// open reports whether messages can be sent.
func (c *control) open() bool { return c.pipe != nil && c.pipe.Alive() }

// send sends the messages that are due, as far as the pipe takes them.
func (c *control) send(now time.Time) error {
	for !c.full || c.takesMore() {
		sent, err := c.sendOne(now)
		if err != nil || !sent {
			return err
		}
		c.takesMore()
	}
	return nil
}

// takesMore looks, after each message and while the pipe is full, whether it takes one more. Between messages its entries only become
// fewer, so that a tick with nothing to send need not look.
func (c *control) takesMore() bool {
	gate := Gate{QueueTime: time.Hour} // no limit: the messages are small and wait behind no bulk
	channel := c.pipe.Channel(c.peer.conn)
	if c.full = !gate.Open(channel); c.full {
		gate.watch(channel)
	}
	return !c.full
}

// sendOne sends the first message that is due: our limits, then one of an incoming transfer, then one of an outgoing transfer.
func (c *control) sendOne(now time.Time) (sent bool, err error) {
	if !c.greeted {
		return true, c.greet()
	}
	if sent, err = c.peer.receiver.sendControl(c.pipe, now); sent || err != nil {
		return sent, err
	}
	return c.peer.sender.sendControl(c.pipe)
}

// greet sends our limits.
func (c *control) greet() error {
	c.greeted = true
	config := &c.peer.streams.config
	m := limits{transfers: config.maxTransfers(), lanes: c.peer.lanes.asked, early: int(config.early()), hashes: config.hashes()}
	return sendLimits.call(c.pipe, m)
}

// limitsChanged has our limits sent again.
func (c *control) limitsChanged() { c.greeted = false }

// onLimits takes the peer's limits.
func (c *control) onLimits(m limits) {
	c.peer.sender.onLimits(m)
	c.peer.lanes.onLimits(m.lanes)
}
