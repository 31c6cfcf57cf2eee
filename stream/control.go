package stream

import (
	"time"

	"github.com/quivernet/quiver/rpc"
)

// control sends what the two ends of a connection tell each other of their transfers, on a pipe of its own above bulk. What is due
// is state of the transfers, not a queue, so that a slow peer makes nothing pile up. It belongs to the world's goroutine.
type control struct {
	peer    *Peer
	pipe    *rpc.Actor // nil until the server's has come
	greeted bool       // our limits were sent, and have not changed since
}

// open reports whether messages can be sent.
func (c *control) open() bool { return c.pipe != nil && c.pipe.Alive() }

// send sends the messages that are due, as far as the pipe takes them.
func (c *control) send(now time.Time) error {
	gate := Gate{QueueTime: time.Hour} // it stands above bulk, and what it carries is small
	channel := c.pipe.Channel(c.peer.conn)
	for gate.Open(channel) {
		more, err := c.sendOne(now)
		if err != nil || !more {
			return err
		}
	}
	gate.watch(channel)
	return nil
}

// sendOne sends the first message that is due: our limits, then those of what is received, then those of what is sent.
func (c *control) sendOne(now time.Time) (sent bool, err error) {
	if !c.greeted {
		return true, c.greet()
	}
	if sent, err = c.peer.receiver.sendControl(c.pipe, now); sent || err != nil {
		return sent, err
	}
	return c.peer.sender.sendControl(c.pipe)
}

// greet says what this end takes.
func (c *control) greet() error {
	c.greeted = true
	config := &c.peer.streams.config
	m := limits{transfers: config.maxTransfers(), lanes: c.peer.lanes.asked, early: int(config.early()), hashes: config.hashes()}
	return sendLimits.call(c.pipe, m)
}

// onLimits hears what the peer takes.
func (c *control) onLimits(m limits) {
	c.peer.sender.onLimits(m)
	c.peer.lanes.onLimits(m.lanes)
}
