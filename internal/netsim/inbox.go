package netsim

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// firstWaiting is how many packets an inbox has room for at first.
const firstWaiting = 8

// The caller of these methods holds mu.

// collect moves what has arrived by now into the inbox and returns when the next packet arrives; zero = none under way.
func (c *PacketConn) collect(now time.Time) (next time.Time) {
	var first recovery.Earliest
	for _, path := range c.in {
		path.arrive(now)
		first.Add(path.link.NextTimeout())
	}
	next, _ = first.Time()
	return next
}

// put appends a packet to the inbox, which then owns d.data. It returns false, and recycles the memory, if the packet does not fit or the
// connection is closed.
func (c *PacketConn) put(d datagram) bool {
	if c.closed.Load() || c.waiting+len(d.data) > c.limit {
		c.recycle(d.data)
		return false
	}
	*c.inbox.Push(firstWaiting) = d
	c.waiting += len(d.data)
	return true
}

func (c *PacketConn) take() (d datagram, ok bool) {
	if c.inbox.Len() == 0 {
		return datagram{}, false
	}
	first := c.inbox.At(c.inbox.Oldest)
	d, *first = *first, datagram{}
	c.inbox.Oldest++
	c.waiting -= len(d.data)
	return d, true
}

// buffer returns a buffer of size bytes; recycle takes it back.
func (c *PacketConn) buffer(size int) []byte {
	if size > bufferSize {
		return make([]byte, size)
	}
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free = c.free[:n-1]
		return b[:size]
	}
	return make([]byte, size, bufferSize)
}

func (c *PacketConn) recycle(b []byte) {
	if cap(b) >= bufferSize && len(c.free) < maxFree {
		c.free = append(c.free, b)
	}
}

// wait releases mu until something may have changed: a packet arrives, the read deadline passes, the connection is closed, or another
// reader passes on the token.
func (c *PacketConn) wait(now, next time.Time) {
	if !c.readDeadline.IsZero() && (next.IsZero() || c.readDeadline.Before(next)) {
		next = c.readDeadline
	}
	var expired <-chan time.Time
	timer := c.timer(now, next)
	if timer != nil {
		expired = timer.C
	}
	c.armed = next
	c.readers++
	c.mu.Unlock()
	select {
	case <-expired:
	case <-c.wake:
	case <-c.done:
	}
	c.mu.Lock()
	c.readers--
	if timer != nil {
		timer.Stop()
		c.spare = timer
	}
}

// timer returns a timer that expires at a time; nil = never.
func (c *PacketConn) timer(now, at time.Time) *time.Timer {
	if at.IsZero() {
		return nil
	}
	t := c.spare
	c.spare = nil
	if t == nil {
		return time.NewTimer(at.Sub(now))
	}
	t.Reset(at.Sub(now))
	return t
}

// wakeOne passes a token to a waiting reader, if there is one.
func (c *PacketConn) wakeOne() {
	if c.readers == 0 {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// wakeBefore wakes a reader that sleeps beyond a time.
func (c *PacketConn) wakeBefore(at time.Time) {
	if c.armed.IsZero() || at.Before(c.armed) {
		c.wakeOne()
	}
}
