package netsim

import (
	"fmt"
	"time"
)

// Path is the one-way link from one PacketConn to another. All methods may be called concurrently.
type Path struct {
	from, to *PacketConn
	link     *Link // under to.mu
	overrun  uint64
}

// Pipe returns two sockets joined by two links; the Configs may be the same, the directions draw different fates from one
// seed. It panics if a Config is not valid.
func Pipe(aToB, bToA Config) (a, b *PacketConn) {
	a, b = NewPacketConn(), NewPacketConn()
	Connect(a, b, aToB, bToA)
	return a, b
}

// Connect joins two sockets. One socket may be joined to many, each over links of its own. It panics if a Config is
// not valid, or when the two are joined already.
func Connect(a, b *PacketConn, aToB, bToA Config) {
	join(a, b, newLink(aToB, 1))
	join(b, a, newLink(bToA, 2))
}

func join(from, to *PacketConn, link *Link) {
	p := &Path{from: from, to: to, link: link}
	from.routes.Lock()
	defer from.routes.Unlock()
	if from.paths[key(to.addr)] != nil {
		panic(fmt.Sprintf("netsim: %v and %v are joined already", from.addr, to.addr))
	}
	from.paths[key(to.addr)] = p
	to.mu.Lock()
	defer to.mu.Unlock()
	to.in = append(to.in, p)
}

// Share has paths share the bottleneck of the first of them. Call it before any of them carries a packet.
func Share(first *Path, others ...*Path) {
	for _, p := range others {
		p.to.mu.Lock()
		p.link.ShareBottleneck(first.link)
		p.to.mu.Unlock()
	}
}

// Dark makes every packet vanish that leaves the bottleneck within d from now.
func (p *Path) Dark(d time.Duration) {
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	now := time.Now()
	p.link.Dark(now, now.Add(d))
}

// SetMTU changes the path's MTU for packets sent from now on; 0 = no limit.
func (p *Path) SetMTU(bytes int) {
	p.to.mu.Lock()
	defer p.to.mu.Unlock()
	p.link.SetMTU(time.Now(), bytes)
}

// SetConfig changes the path for packets sent from now on. It panics if the Config is not valid.
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

// send copies a packet into the link, and moves on what has arrived, so that a link that nobody reads does not grow.
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
		p.arrive(now)
	} else if at, ok := p.link.NextTimeout(); ok && (sleepers.armed.IsZero() || at.Before(sleepers.armed)) {
		sleepers.arm(now, at)
	}
}

// arrive moves packets that have arrived by now into the receiver's inbox. The caller holds to.mu.
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
