// Package linktest provides carriers in memory for the tests of packages that need a link.
package linktest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/link"
)

// A Carrier is one end of a pipe. By default it loses nothing, delays nothing and never blocks.
// Its settings apply to what this end sends, except for SetDepth. Its methods are safe for
// concurrent use.
type Carrier struct {
	peer *Carrier
	sent atomic.Int64 // datagrams sent, including lost ones

	mu    sync.Mutex
	path  link.Path
	limit int // maximum size of a datagram
	delay time.Duration
	drop  func(datagram []byte) bool
	gate  chan struct{} // SendDatagram waits until it is closed; nil if SendDatagram doesn't block

	// What was sent to this end.
	queue   []arrival
	depth   int // maximum number of datagrams in queue; 0 if there is no limit
	dropped int
	arrived bell.Bell

	// The end.
	closed chan struct{}
	err    error
	code   uint64
	reason string
	parted bool // CloseWithError was called on this end
}

// An arrival is a datagram from the peer, or the peer's close.
type arrival struct {
	due      time.Time
	datagram []byte
	err      error // set if it is a close
}

// Pipe returns the two ends of a pipe with a window of 256 KiB and datagrams of up to 1,243 bytes.
func Pipe() (a, b *Carrier) {
	a, b = newCarrier(), newCarrier()
	a.peer, b.peer = b, a
	return a, b
}

func newCarrier() *Carrier {
	c := &Carrier{arrived: bell.New(), closed: make(chan struct{})}
	c.SetPath(link.Path{Cwnd: 256 << 10, MaxDatagram: 1243})
	return c
}

// SetPath sets the result of Path, and limits datagrams to its MaxDatagram.
func (c *Carrier) SetPath(p link.Path) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.path, c.limit = p, p.MaxDatagram
}

// SetLimit sets the maximum size of a datagram for SendDatagram, but not in the result of Path.
func (c *Carrier) SetLimit(size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = size
}

// SetDelay sets how long datagrams are in flight.
func (c *Carrier) SetDelay(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = d
}

// SetDrop sets a function that decides which datagrams are lost. It is called for each datagram, in
// the order in which they are sent.
func (c *Carrier) SetDrop(drop func(datagram []byte) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop = drop
}

// SetDepth limits how many datagrams wait at this end for ReceiveDatagram. If there are more, they
// are dropped. quic-go's own limit is 128.
func (c *Carrier) SetDepth(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.depth = n
}

// Block makes SendDatagram block until Block(false) is called or the carrier is closed.
func (c *Carrier) Block(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case on && c.gate == nil:
		c.gate = make(chan struct{})
	case !on && c.gate != nil:
		close(c.gate)
		c.gate = nil
	}
}

// Fail breaks this end, so that sending and receiving return err. The peer doesn't notice.
func (c *Carrier) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(err)
}

// Closed returns the arguments of CloseWithError. ok is false if it wasn't called.
func (c *Carrier) Closed() (code uint64, reason string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code, c.reason, c.parted
}

// Sent returns how many datagrams this end has sent, including lost ones.
func (c *Carrier) Sent() int { return int(c.sent.Load()) }

// Dropped returns how many datagrams were dropped because this end's queue was full.
func (c *Carrier) Dropped() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}

// SendQueue implements link.Carrier. It returns 0, because SendDatagram may always block.
func (c *Carrier) SendQueue() int { return 0 }

// Path returns the argument of the last SetPath.
func (c *Carrier) Path() link.Path {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.path
}

// SendDatagram copies the datagram to the other end, as the settings allow.
func (c *Carrier) SendDatagram(p []byte) error {
	for {
		c.mu.Lock()
		gate, err, limit, delay, drop := c.gate, c.err, c.limit, c.delay, c.drop
		c.mu.Unlock()
		switch {
		case err != nil:
			return err
		case len(p) > limit:
			return &link.TooLargeError{Max: limit}
		case gate != nil:
			select {
			case <-gate:
			case <-c.closed:
			}
		case drop != nil && drop(p):
			c.sent.Add(1)
			return nil
		default:
			datagram := make([]byte, len(p))
			copy(datagram, p)
			c.sent.Add(1)
			c.peer.deliver(arrival{due: time.Now().Add(delay), datagram: datagram})
			return nil
		}
	}
}

// ReceiveDatagram returns the oldest datagram as soon as it has arrived.
func (c *Carrier) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	for ctx.Err() == nil {
		datagram, wait, err := c.take(time.Now())
		if err != nil || datagram != nil {
			return datagram, err
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-c.arrived:
		case <-due:
		case <-c.closed:
		case <-ctx.Done():
		}
	}
	return nil, ctx.Err()
}

// CloseWithError closes this end at once, and the peer's end after the datagrams in flight.
func (c *Carrier) CloseWithError(code uint64, reason string) error {
	c.mu.Lock()
	if c.parted {
		c.mu.Unlock()
		return nil
	}
	c.parted, c.code, c.reason = true, code, reason
	silent := c.err != nil
	c.fail(&link.CloseError{Code: code, Reason: reason})
	delay := c.delay
	c.mu.Unlock()
	if !silent {
		err := &link.CloseError{Code: code, Reason: reason, Remote: true}
		c.peer.deliver(arrival{due: time.Now().Add(delay), err: err})
	}
	return nil
}

// fail ends this end with err unless it has ended already. The caller holds the lock.
func (c *Carrier) fail(err error) {
	if c.err == nil {
		c.err = err
		close(c.closed)
	}
}

// deliver appends an arrival from the peer to the queue. The peer's close is never dropped.
func (c *Carrier) deliver(a arrival) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.err == nil && c.depth > 0 && len(c.queue) >= c.depth {
		c.dropped++
		return
	}
	c.queue = append(c.queue, a)
	c.arrived.Ring()
}

// take returns the oldest datagram if it has arrived. Otherwise wait is how long it will still be
// in flight, or 0 if there is none. As in quic-go, datagrams that have arrived are returned even
// after the end.
func (c *Carrier) take(now time.Time) (datagram []byte, wait time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, 0, c.err
	}
	oldest := c.queue[0]
	if wait = oldest.due.Sub(now); wait > 0 {
		return nil, wait, c.err
	}
	c.queue = c.queue[1:]
	if oldest.err != nil {
		c.fail(oldest.err)
		return nil, 0, c.err
	}
	return oldest.datagram, 0, nil
}
