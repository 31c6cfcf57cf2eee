package rpc

import (
	"sync"
	"time"
)

const (
	// pacerCredit is how long an idle pacer saves up. UE: at most two ticks of credit, 66 ms at 30 Hz.
	pacerCredit = 66 * time.Millisecond
	// pacerFloor is the least credit in bytes: two datagrams, else slow rates could never send one.
	pacerFloor = 3000
)

// pacer holds a rate in bytes a second: a datagram may leave when those before it are paid for. UE: QueuedBits <= 0.
type pacer struct {
	rate   int
	credit time.Duration

	mu   sync.Mutex
	paid time.Time // when all that was let through is paid for
}

// newPacer returns nil, which lets everything through, for rate 0.
func newPacer(rate int) *pacer {
	if rate <= 0 {
		return nil
	}
	p := &pacer{rate: rate}
	p.credit = max(pacerCredit, p.time(pacerFloor))
	return p
}

// reserve books a datagram of size bytes and returns how long it must wait.
func (p *pacer) reserve(now time.Time, size int) time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if earliest := now.Add(-p.credit); p.paid.Before(earliest) {
		p.paid = earliest
	}
	wait := p.paid.Sub(now)
	p.paid = p.paid.Add(p.time(size))
	return max(0, wait)
}

// time returns how long size bytes take, rounded up.
func (p *pacer) time(size int) time.Duration {
	return time.Duration((int64(size)*int64(time.Second) + int64(p.rate) - 1) / int64(p.rate))
}

// cappedCarrier makes the link's writer wait for the bandwidth caps. Packets are built when the wire can take them, so
// that one packet at most has been built too early: what arrives meanwhile, acks too, waits for the one after it.
type cappedCarrier struct {
	Carrier
	own, world *pacer
	closed     chan struct{}
	close      sync.Once
}

// capped puts the caps of the config in front of a carrier.
func (w *World) capped(carrier Carrier) Carrier {
	own := newPacer(w.config.Rate)
	if own == nil && w.rate == nil {
		return carrier
	}
	return &cappedCarrier{Carrier: carrier, own: own, world: w.rate, closed: make(chan struct{})}
}

func (c *cappedCarrier) SendDatagram(p []byte) error {
	now := time.Now()
	wait := max(c.own.reserve(now, len(p)), c.world.reserve(now, len(p)))
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.closed:
		}
	}
	return c.Carrier.SendDatagram(p)
}

func (c *cappedCarrier) CloseWithError(code uint64, reason string) error {
	c.close.Do(func() { close(c.closed) })
	return c.Carrier.CloseWithError(code, reason)
}
