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

// settleTime is how long the hub waits for other packets that are sent at the same instant, before
// it sends all of them in the order of the clients, no matter which goroutine was first.
const settleTime = time.Nanosecond

// A hub moves the packets of all paths. Since it is driven by a single timer, the seed
// determines the order of all events.
type hub struct {
	mu    sync.Mutex // guards the fields below, and the links of all paths
	paths []*path    // paths that have not ended, in the order of joining
	joins int        // number of paths so far, including ended ones
	timer *time.Timer
}

func newHub() *hub {
	h := &hub{}
	h.timer = time.AfterFunc(time.Hour, h.movePackets)
	h.timer.Stop()
	return h
}

// A path connects a client with the server by a link in each direction.
type path struct {
	hub       *hub
	addr      net.Addr
	near, far *end  // the client's and the server's
	up, down  *link // to the server and to the client
}

// A link is one direction of a path. It is guarded by the hub's lock, except for window.
type link struct {
	*netsim.Link
	to      *end
	waiting [][]byte      // packets sent at this instant, until the hub moves them
	delay   time.Duration // maximum time that a packet takes, excluding queues
	rate    int64         // bit/s; 0 for no bottleneck
	window  atomic.Int64  // bytes that the sending end may have in flight; 0 if unknown

	// Only for the direction to a client. The link itself ends with the server's uplink. Packets
	// then go on to the client's own downlink.
	downlink     *netsim.Link // its bottleneck; nil if it never had one
	downlinkRate int64        // bit/s; 0 for no bottleneck
}

// join makes a path for one more client. All packets from the server go through the same
// bottleneck, the server's uplink.
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
	p.up = &link{Link: netsim.NewLink(inSeries(out, in)), to: p.far}
	// Use another seed, so that this direction doesn't lose the same packets.
	out.Seed++
	p.down = &link{Link: netsim.NewLink(inSeries(out, in)), to: p.near}
	for _, l := range []*link{p.up, p.down} {
		l.delay = maxDelay(out, in)
		l.rate = out.Rate
	}
	p.down.setDownlink(bottleneckOf(in))
	p.near.out, p.near.peer = p.up, p.far
	p.far.out, p.far.peer = p.down, p.near
	if len(h.paths) > 0 {
		p.down.ShareBottleneck(h.paths[0].down.Link)
	}
	h.paths = append(h.paths, p)
	h.setWindows()
	return p, nil
}

// queueTime is the queueing delay that a congestion controller would tolerate at a bottleneck
// if it knew the rate.
const queueTime = 20 * time.Millisecond

// setWindows sets the number of bytes that each end may have in flight, which is the
// bandwidth-delay product of the end's path. All clients share the server's uplink equally, but
// none gets more than its own downlink can take. The caller holds the lock.
func (h *hub) setWindows() {
	for _, p := range h.paths {
		trip := p.up.delay + p.down.delay + queueTime
		p.up.window.Store(int64(trip.Seconds() * float64(p.up.rate) / 8))
		down := float64(p.down.rate) / float64(len(h.paths))
		if own := float64(p.down.downlinkRate); own > 0 && (down == 0 || own < down) {
			down = own
		}
		p.down.window.Store(int64(trip.Seconds() * down / 8))
	}
}

// inSeries returns the Config of a single link that has the same effects as the links out and in,
// one after the other.
func inSeries(out, in netsim.Config) netsim.Config {
	out.Loss = 1 - (1-out.Loss)*(1-in.Loss)
	out.LossBeyond = in.Loss
	out.Delay += in.Delay
	out.Jitter += in.Jitter
	return out
}

// bottleneckOf returns a Config that has the bottleneck of in, but none of its other effects.
func bottleneckOf(in netsim.Config) netsim.Config {
	return netsim.Config{Rate: in.Rate, Queue: in.Queue}
}

// maxDelay returns the maximum time that a packet can be in flight, excluding the time in queues.
func maxDelay(out, in netsim.Config) time.Duration {
	return out.Delay + out.Jitter + in.Delay + in.Jitter + out.Alternate + out.ReorderDelay
}

// A scope says how much of a path a change of the emulation concerns.
type scope uint8

const (
	wholePath scope = iota

	// All but the server's uplink, since all clients share it. A Rate then limits the client's
	// downlink instead.
	clientsOwn
)

// setProfile changes the emulation in both directions.
func (p *path) setProfile(profile emulation.Settings, of scope) error {
	out, in, err := badnet.Links(profile)
	if err != nil {
		return err
	}
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.up.SetConfig(inSeries(out, in))
	p.up.rate = out.Rate
	if of == clientsOwn {
		p.down.SetBehind(inSeries(out, in))
		if out.Rate > 0 && (in.Rate == 0 || out.Rate < in.Rate) {
			in.Rate = out.Rate
			in.Queue = out.Queue
		}
	} else {
		p.down.SetConfig(inSeries(out, in))
		p.down.rate = out.Rate
	}
	p.down.setDownlink(bottleneckOf(in))
	p.up.delay = maxDelay(out, in)
	p.down.delay = maxDelay(out, in)
	p.hub.setWindows()
	return nil
}

// isOver reports whether both ends have closed, so that no packet is in flight any more.
func (p *path) isOver() bool { return p.near.hasEnded() && p.far.hasEnded() }

// dark interrupts the path for d, so that all packets are lost.
func (p *path) dark(d time.Duration) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	now := time.Now()
	p.up.Dark(now, now.Add(d))
	p.down.Dark(now, now.Add(d))
}

// send puts a packet on a link, and lets the hub move it settleTime later.
func (h *hub) send(l *link, packet []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.waiting = append(l.waiting, slices.Clone(packet))
	h.timer.Reset(settleTime)
}

// movePackets is called by the timer. It moves the packets of all links, sets the timer for
// the next packet that arrives, and removes paths that have ended.
func (h *hub) movePackets() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	next := now.Add(time.Hour)
	for _, p := range h.paths {
		for _, l := range []*link{p.up, p.down} {
			if at, ok := l.deliverDue(now); ok && at.Before(next) {
				next = at
			}
		}
	}
	h.timer.Reset(next.Sub(now))
	before := len(h.paths)
	h.paths = slices.DeleteFunc(h.paths, (*path).isOver)
	// The remaining paths have a larger share of the server's uplink.
	if len(h.paths) < before {
		h.setWindows()
	}
}

// setDownlink sets the bottleneck of the client's downlink, or removes it if cfg has none.
func (l *link) setDownlink(cfg netsim.Config) {
	l.downlinkRate = cfg.Rate
	switch {
	case l.downlink != nil:
		l.downlink.SetConfig(cfg)
	case cfg.Rate > 0:
		l.downlink = netsim.NewLink(cfg)
	}
}

// deliverDue sends the waiting packets, delivers all packets that have arrived by now, and returns
// the time when the next one will arrive. ok is false if no packets are in flight.
func (l *link) deliverDue(now time.Time) (next time.Time, ok bool) {
	for _, packet := range l.waiting {
		l.Send(now, packet)
	}
	clear(l.waiting)
	l.waiting = l.waiting[:0]
	if l.downlink == nil {
		return drain(l.Link, now, l.to.deliver)
	}
	// Packets leave the server's uplink only to enter the client's downlink.
	next, ok = drain(l.Link, now, func(packet []byte) { l.downlink.Send(now, packet) })
	if at, more := drain(l.downlink, now, l.to.deliver); more && (!ok || at.Before(next)) {
		next, ok = at, true
	}
	return next, ok
}

// drain calls take for all packets that have arrived over a link, and returns the time when the
// next one will arrive.
func drain(l *netsim.Link, now time.Time, take func(packet []byte)) (next time.Time, ok bool) {
	for {
		packet, ok := l.Deliver(now)
		if !ok {
			return l.NextTimeout()
		}
		take(packet)
	}
}
