package pace_test

import (
	"math/rand/v2"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
)

const ms = time.Millisecond

// wire is one direction of a path.
type wire interface {
	send(now time.Time, packet []byte)
	deliver(now time.Time) ([]byte, bool)
	next() (time.Time, bool)
	backlog(now time.Time) time.Duration
}

// simulated is a netsim.Link.
type simulated struct {
	*netsim.Link
	rate int64
}

func newSimulated(c netsim.Config) simulated { return simulated{netsim.NewLink(c), c.Rate} }

func (s simulated) send(now time.Time, packet []byte)    { s.Send(now, packet) }
func (s simulated) deliver(now time.Time) ([]byte, bool) { return s.Deliver(now) }
func (s simulated) next() (time.Time, bool)              { return s.NextTimeout() }
func (s simulated) backlog(now time.Time) time.Duration {
	if s.rate == 0 {
		return 0
	}
	return time.Duration(float64(s.Backlog(now)) * 8e9 / float64(s.rate))
}

// path is a direction whose rate, delay, loss and darkness change while it
// runs, which a netsim.Link's do not. It is a first-in-first-out bottleneck
// with a tail-drop queue, and delay and loss behind it.
type path struct {
	rate   float64 // bit/s
	queue  int     // bytes
	delay  time.Duration
	loss   float64
	dark   bool
	jitter time.Duration

	rng     *rand.Rand
	busy    time.Time // the bottleneck is, until then
	last    time.Time // arrival: nothing overtakes
	flying  []flying
	dropped int
}

type flying struct {
	at     time.Time
	packet []byte
}

// newPath makes a path with a queue of max(1 BDP, 64 KB).
func newPath(rate float64, rtt time.Duration, loss float64, seed uint64) *path {
	return &path{rate: rate, queue: max(int(rate/8*rtt.Seconds()), 64<<10), delay: rtt / 2, loss: loss, rng: rand.New(rand.NewPCG(seed, 7))}
}

func (p *path) send(now time.Time, packet []byte) {
	size := float64(len(packet) + netsim.UDPOverhead)
	took := time.Duration(size * 8e9 / p.rate)
	if p.busy.Before(now) {
		p.busy = now
	} else if (p.busy.Sub(now)+took).Seconds()*p.rate/8 > float64(p.queue) {
		p.dropped++
		return
	}
	p.busy = p.busy.Add(took)
	if roll := p.rng.Float64(); p.dark || roll < p.loss {
		return
	}
	at := p.busy.Add(p.delay + time.Duration(p.rng.Float64()*float64(p.jitter)))
	if at.Before(p.last) {
		at = p.last
	}
	p.last = at
	p.flying = append(p.flying, flying{at, packet})
}

func (p *path) deliver(now time.Time) ([]byte, bool) {
	if len(p.flying) == 0 || p.flying[0].at.After(now) {
		return nil, false
	}
	packet := p.flying[0].packet
	p.flying = p.flying[1:]
	return packet, true
}

func (p *path) next() (time.Time, bool) {
	if len(p.flying) == 0 {
		return time.Time{}, false
	}
	return p.flying[0].at, true
}

func (p *path) backlog(now time.Time) time.Duration { return max(p.busy.Sub(now), 0) }
