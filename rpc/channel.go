package rpc

import "time"

// Channel is an actor's channel on one connection. The zero Channel is closed. Its methods are safe from any goroutine.
type Channel struct {
	conn   *Conn
	number uint64
}

// Channel returns the actor's channel on c; the zero Channel when the actor is not open there.
func (a *Actor) Channel(c *Conn) Channel {
	if i := a.find(c); i >= 0 {
		return Channel{c, a.opens[i].channel}
	}
	return Channel{}
}

// Open reports whether the channel exists and its connection lives.
func (ch Channel) Open() bool { return ch.conn != nil && ch.conn.usable() }

// Reliable returns how many entries of the channel's reliable buffer are taken, and how many it has; one of them is for
// the close alone. UE: NumOutRec, RELIABLE_BUFFER.
func (ch Channel) Reliable() (out, slots int) {
	if ch.conn == nil {
		return 0, 0
	}
	ch.conn.link.Lock()
	defer ch.conn.link.Unlock()
	return ch.conn.machine.Reliable(ch.number)
}

// QueueTime returns how long what waits unsent on the channel, and before it, takes at the present delivery rate.
func (ch Channel) QueueTime() time.Duration {
	if ch.conn == nil {
		return 0
	}
	ch.conn.link.Lock()
	defer ch.conn.link.Unlock()
	return ch.conn.machine.QueueTime(ch.number)
}

// Watch makes Run tick once as soon as fewer than out entries are taken and the queue time is at most queued.
func (ch Channel) Watch(out int, queued time.Duration) {
	if ch.conn == nil {
		return
	}
	ch.conn.link.Lock()
	defer ch.conn.link.Unlock()
	ch.conn.machine.Watch(ch.number, out, queued)
}
