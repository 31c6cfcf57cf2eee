package rpctest

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/badnet"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/rpc/emulation"
)

// settleTime is how long the hub waits for packets that are sent at the same instant. It then
// sends them in the order of the clients, whichever goroutine was first.
const settleTime = time.Nanosecond

// A hub moves the packets of all paths. A single timer drives it, so the
// order of all events follows from the seed.
type hub struct {
	mu    sync.Mutex // guards the fields below, and the links of all paths
	paths []*path    // in the order of joining; ended ones are removed
	joins int        // number of paths that were made
	timer *time.Timer
}

func newHub() *hub {
	h := &hub{}
	h.timer = time.AfterFunc(time.Hour, h.carry)
	h.timer.Stop()
	return h
}

// A path connects a client and the server, with one link for each direction.
type path struct {
	hub       *hub
	addr      net.Addr
	near, far *end  // the client's end and the server's
	up, down  *link // the link to the server and the link to the client
}

// A link is one direction of a path. The hub's lock guards it, except window.
type link struct {
	*netsim.Link
	to      *end
	waiting [][]byte      // packets that were sent at this instant
	delay   time.Duration // maximum time that a packet takes without a queue
	rate    int64         // bit/s; 0 = no bottleneck
	window  atomic.Int64  // bytes that its end may have in flight; 0 = unknown

	// Only for the direction to a client: the client's downlink, after the server's uplink.
	last     *netsim.Link // the bottleneck of the downlink; nil = none yet
	lastRate int64        // bit/s of last; 0 = no bottleneck
}

// join makes the path of one more client. All packets from the server share one bottleneck.
func (h *hub) join(profile emulation.Settings, seed uint64) (*path, error) {
	profile.Seed = seed
	out, in, err := badnet.Links(profile)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.joins++
	addr := net.IPv4(10, byte(h.joins>>16), byte(h.joins>>8), byte(h.joins))
	p := &path{hub: h, addr: &net.UDPAddr{IP: addr, Port: 7777}}
	p.near = newEnd(h)
	p.far = newEnd(h)
	p.far.addr = p.addr
	p.up = &link{Link: netsim.NewLink(joined(out, in)), to: p.far}
	out.Seed++
	p.down = &link{Link: netsim.NewLink(joined(out, in)), to: p.near}
	for _, l := range []*link{p.up, p.down} {
		l.delay = longest(out, in)
		l.rate = out.Rate
	}
	p.down.narrow(downlink(in))
	p.near.out, p.near.peer = p.up, p.far
	p.far.out, p.far.peer = p.down, p.near
	if len(h.paths) > 0 {
		p.down.ShareBottleneck(h.paths[0].down.Link)
	}
	h.paths = append(h.paths, p)
	h.share()
	return p, nil
}

// queueTime is the queueing delay that a congestion control that
// knows the rate would allow at a bottleneck.
const queueTime = 20 * time.Millisecond

// share sets how many bytes each end may have in flight. This is the bandwidth-delay product
// of the end's path. The bandwidth of a server's end is an equal share of the server's
// uplink, or the client's own downlink if that is slower. The caller holds the lock.
func (h *hub) share() {
	for _, p := range h.paths {
		trip := p.up.delay + p.down.delay + queueTime
		p.up.window.Store(int64(trip.Seconds() * float64(p.up.rate) / 8))
		down := float64(p.down.rate) / float64(len(h.paths))
		if own := float64(p.down.lastRate); own > 0 && (down == 0 || own < down) {
			down = own
		}
		p.down.window.Store(int64(trip.Seconds() * down / 8))
	}
}

// joined returns the Config of one link that has the effect of the
// links out and in, one after the other.
func joined(out, in netsim.Config) netsim.Config {
	out.Loss = 1 - (1-out.Loss)*(1-in.Loss)
	out.LossBeyond = in.Loss
	out.Delay += in.Delay
	out.Jitter += in.Jitter
	return out
}

// downlink returns the Config of the bottleneck for incoming packets.
// It does not have the other effects of in.
func downlink(in netsim.Config) netsim.Config { return netsim.Config{Rate: in.Rate, Queue: in.Queue} }

// longest returns the maximum time that a packet is in flight if it waits in no queue.
func longest(out, in netsim.Config) time.Duration {
	return out.Delay + out.Jitter + in.Delay + in.Jitter + out.Alternate + out.ReorderDelay
}

// set changes both directions. If one is true, it changes only this client's path. The server's
// uplink, which all clients share, then stays as it is, and a Rate limits the downlink after it.
func (p *path) set(profile emulation.Settings, one bool) error {
	out, in, err := badnet.Links(profile)
	if err != nil {
		return err
	}
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.up.SetConfig(joined(out, in))
	p.up.rate = out.Rate
	if one {
		p.down.SetBehind(joined(out, in))
		if out.Rate > 0 && (in.Rate == 0 || out.Rate < in.Rate) {
			in.Rate = out.Rate
			in.Queue = out.Queue
		}
	} else {
		p.down.SetConfig(joined(out, in))
		p.down.rate = out.Rate
	}
	p.down.narrow(downlink(in))
	p.up.delay = longest(out, in)
	p.down.delay = longest(out, in)
	p.hub.share()
	return nil
}

// isOver reports whether both ends have closed, so that no packet is in flight any more.
func (p *path) isOver() bool { return p.near.hasEnded() && p.far.hasEnded() }

// dark drops all packets of the path for d.
func (p *path) dark(d time.Duration) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	now := time.Now()
	p.up.Dark(now, now.Add(d))
	p.down.Dark(now, now.Add(d))
}

// send puts a packet on a link. The hub moves the packet settleTime later.
func (h *hub) send(l *link, packet []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.waiting = append(l.waiting, slices.Clone(packet))
	h.timer.Reset(settleTime)
}

// carry moves the packets of all links, and sets the timer for the next
// packet. It also removes paths that have ended.
func (h *hub) carry() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	next := now.Add(time.Hour)
	for _, p := range h.paths {
		for _, l := range []*link{p.up, p.down} {
			if at, ok := l.carry(now); ok && at.Before(next) {
				next = at
			}
		}
	}
	h.timer.Reset(next.Sub(now))
	before := len(h.paths)
	h.paths = slices.DeleteFunc(h.paths, (*path).isOver)
	if len(h.paths) < before {
		h.share()
	}
}

// narrow sets the bottleneck of the downlink. It removes the bottleneck if cfg has none.
func (l *link) narrow(cfg netsim.Config) {
	l.lastRate = cfg.Rate
	switch {
	case l.last != nil:
		l.last.SetConfig(cfg)
	case cfg.Rate > 0:
		l.last = netsim.NewLink(cfg)
	}
}

// carry delivers the packets that have arrived, and returns the time at which the next one
// arrives. ok is false if no packet is in flight.
func (l *link) carry(now time.Time) (next time.Time, ok bool) {
	for _, packet := range l.waiting {
		l.Send(now, packet)
	}
	clear(l.waiting)
	l.waiting = l.waiting[:0]
	if l.last == nil {
		return drain(l.Link, now, l.to.deliver)
	}
	next, ok = drain(l.Link, now, func(packet []byte) { l.last.Send(now, packet) })
	if at, more := drain(l.last, now, l.to.deliver); more && (!ok || at.Before(next)) {
		next, ok = at, true
	}
	return next, ok
}

// drain passes the packets that have arrived over a link to take, and
// returns the time at which the next one arrives.
func drain(l *netsim.Link, now time.Time, take func(packet []byte)) (next time.Time, ok bool) {
	for {
		packet, ok := l.Deliver(now)
		if !ok {
			return l.NextTimeout()
		}
		take(packet)
	}
}
