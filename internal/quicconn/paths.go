package quicconn

import (
	"context"
	"iter"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/door"
	"github.com/quivernet/quiver/internal/udp"
)

const (
	// renewPause is the shortest time between two renewals for packets to unproven addresses. It
	// keeps a flood of them from renewing all the time.
	renewPause = 10 * time.Millisecond

	// spareProven is how many proven addresses we may keep beyond twice their number after the last
	// renewal, before Prove renews them.
	spareProven = 64
)

// Paths guards a server's UDP socket, which quic-go sends through. It drops packets to addresses
// that no connection has proven if they exceed the limits of [door.Paths]. It is a [sealed.Guard],
// and its methods are safe for concurrent use.
type Paths struct {
	warn func(to net.Addr) // called when packets are dropped

	mu         sync.Mutex // taken before the listener's lock
	limit      *door.Paths
	remotes    iter.Seq2[uint64, net.Addr] // addresses of all connections, by number; nil until we listen
	renewed    time.Time                   // when renewForPacket last called renew
	renewAbove int                         // how many proven addresses make Prove call renew
}

// NewPaths returns Paths without connections. It calls warn whenever it drops packets, and warn
// must not block.
func NewPaths(warn func(to net.Addr)) *Paths { return &Paths{warn: warn, limit: door.NewPaths()} }

// shortHeader reports whether a packet belongs to a connection whose handshake is complete. Before
// that, quic-go itself limits what it sends to an address (RFC 9000, section 8.1).
func shortHeader(packet []byte) bool { return packet[0]&0x80 == 0 }

// Received implements sealed.Guard. It is called for each packet that QUIC receives.
func (p *Paths) Received(from netip.AddrPort, packet []byte) {
	if !shortHeader(packet) || len(packet) <= ConnectionIDBytes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := door.ConnID(packet[1:])
	if !p.limit.ReceivedFromHome(from, id) { // hardly ever
		p.limit.Received(from, id, len(packet), time.Now())
	}
}

// Route implements sealed.Guard. Only the first of the packets may have a long header. also is a
// second address to send them to, or nil.
func (p *Paths) Route(to net.Addr, packets []byte) (also net.Addr, ok bool) {
	if !shortHeader(packets) {
		return nil, true
	}
	also, ok = p.spend(udp.AddrPort(to), len(packets))
	if !ok {
		p.warn(to)
	}
	return also, ok
}

// spend is Route for packets with a short header. It deducts them from the allowance of their
// address.
func (p *Paths) spend(to netip.AddrPort, size int) (also net.Addr, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit.Knows(to) {
		return p.spendCopy(to, size), true
	}
	now := time.Now()
	// Renew first, because a connection may just have proven the address, which restores its
	// allowance.
	p.renewForPacket(now)
	return nil, p.limit.Spend(to, size, now)
}

// spendCopy returns a second address to send packets for a proven address to, or nil.
func (p *Paths) spendCopy(to netip.AddrPort, size int) net.Addr {
	if !p.limit.Moving() {
		return nil
	}
	if also, ok := p.limit.SpendCopy(to, size, time.Now()); ok {
		return net.UDPAddrFromAddrPort(also)
	}
	return nil
}

// MustProve reports whether a client must prove its address by a Retry before the handshake begins.
func (p *Paths) MustProve(remote net.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit.MustProve(udp.AddrPort(remote))
}

// Begin is called when a handshake begins. The handshake counts for the client's address until ctx
// is done. proven is set if the client has shown a token.
func (p *Paths) Begin(ctx context.Context, remote net.Addr, proven bool) {
	from := udp.AddrPort(remote)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit.Begin(from, proven, time.Now())
	context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.limit.End(from)
	})
}

// Prove adds the address of a new connection.
func (p *Paths) Prove(remote net.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit.Proven() >= p.renewAbove {
		p.renew()
	}
	p.limit.Prove(udp.AddrPort(remote))
}

// Follow is called when the listener begins to listen. remotes yields the addresses of all
// connections, by their unique numbers.
func (p *Paths) Follow(remotes iter.Seq2[uint64, net.Addr]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remotes = remotes
}

// renewForPacket calls renew before a packet to an unproven address is sent, unless it did so
// within the last renewPause. The caller holds mu.
func (p *Paths) renewForPacket(now time.Time) {
	if now.Sub(p.renewed) >= renewPause {
		p.renewed = now
		p.renew()
	}
}

// renew updates the proven addresses: it removes those without a connection, and adds those that
// connections have moved to. The caller holds mu.
func (p *Paths) renew() {
	p.limit.Renew(func(yield func(uint64, netip.AddrPort) bool) {
		if p.remotes == nil {
			return
		}
		for conn, remote := range p.remotes {
			if !yield(conn, udp.AddrPort(remote)) {
				return
			}
		}
	})
	p.renewAbove = 2*p.limit.Proven() + spareProven
}
