package netsim

import (
	"fmt"
	"time"
)

// A Path is the one-way link from one PacketConn to another. All methods may be called
// concurrently.
type Path struct {
	from, to *PacketConn
	link     *Link  // guarded by to.mu
	overrun  uint64 // guarded by to.mu
}

// Pipe returns two sockets joined by two links. Both links may have the same Config, including its
// seed, and still lose different packets. Pipe panics if a Config is invalid.
func Pipe(aToB, bToA Config) (a, b *PacketConn) {
	a, b = NewPacketConn(), NewPacketConn()
	Connect(a, b, aToB, bToA)
	return a, b
}

// Connect joins two sockets. A socket may be joined to any number of others, each over links of its
// own. Connect panics if a Config is invalid or if the two sockets are already joined.
func Connect(a, b *PacketConn, aToB, bToA Config) {
	join(a, b, newLink(aToB, 1))
	join(b, a, newLink(bToA, 2))
}

// join adds a one-way path.
func join(from, to *PacketConn, link *Link) {
	p := &Path{from: from, to: to, link: link}
	from.routes.Lock()
	defer from.routes.Unlock()
	if from.paths[key(to.addr)] != nil {
		panic(fmt.Sprintf("netsim: %v and %v are already joined", from.addr, to.addr))
	}
	from.paths[key(to.addr)] = p
	to.mu.Lock()
	defer to.mu.Unlock()
	to.in = append(to.in, p)
}

// Share makes all the others use the bottleneck of first, as flows through one router do. It must
// be called before any of the paths has carried a packet.
func Share(first *Path, others ...*Path) {
	for _, p := range others {
		p.to.mu.Lock()
		p.link.ShareBottleneck(first.link)
		p.to.mu.Unlock()
	}
}

// Dark interrupts the path for d, starting now, so that packets that leave the bottleneck in that
// time are lost.
func (p *Path) Dark(d time.Duration) {
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	now := time.Now()
	p.link.Dark(now, now.Add(d))
}

// SetMTU sets the path's MTU for packets sent from now on. 0 means no limit.
func (p *Path) SetMTU(bytes int) {
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	p.link.SetMTU(time.Now(), bytes)
}

// SetConfig changes the path for packets sent from now on. It panics if the Config is invalid.
func (p *Path) SetConfig(cfg Config) {
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	p.link.SetConfig(cfg)
}

// Stats returns a copy of the counters.
func (p *Path) Stats() Stats {
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	s := p.link.Stats()
	s.Overrun = p.overrun
	return s
}

// send puts a copy of a packet into the link.
func (p *Path) send(packet []byte) {
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	now := time.Now()
	buf := p.to.inbox.buffer(len(packet))
	copy(buf, packet)
	if p.link.Send(now, buf) != Carried {
		p.to.inbox.recycle(buf)
	}
	sleepers := &p.to.sleepers
	if sleepers.count == 0 {
		// Nobody is waiting for packets, so collect what has arrived. Otherwise the link would
		// grow until someone reads from the socket.
		p.arrive(now)
		return
	}
	if at, ok := p.link.NextTimeout(); ok && (sleepers.armed.IsZero() || at.Before(sleepers.armed)) {
		sleepers.arm(now, at) // wake a reader earlier than planned
	}
}

// arrive moves packets that have arrived by now into the receiver's inbox, and counts those that
// don't fit. The caller holds to.mu.
func (p *Path) arrive(now time.Time) {
	for {
		packet, ok := p.link.Deliver(now)
		if !ok {
			return
		}
		if p.to.closed.Load() || !p.to.inbox.put(datagram{data: packet, from: p.from.addr}) {
			p.overrun++
		}
	}
}
