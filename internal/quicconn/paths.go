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
	// lookTime is how long look waits before it calls renew again, while packets are being sent to
	// unknown addresses.
	lookTime = 10 * time.Millisecond

	// fewPaths is how many proven addresses we keep in any case. If there are more, and more than
	// twice as many as after the last renew, it's time for another.
	fewPaths = 64
)

// Paths guards a server's UDP socket, which quic-go sends through. It holds back packets to
// addresses that no connection has proven, as [door.Paths] describes. It is a [sealed.Guard],
// and its methods are safe for concurrent use.
type Paths struct {
	warn func(to net.Addr) // called for each packet that is held back

	mu      sync.Mutex // taken before the listener's lock
	limit   *door.Paths
	remotes iter.Seq2[uint64, net.Addr] // addresses of all connections, by number; nil until we listen
	looked  time.Time                   // when look last called renew
	most    int                         // how many proven addresses make Prove call renew
}

// NewPaths returns Paths without connections. It calls warn for each packet that it holds back,
// which must not block.
func NewPaths(warn func(to net.Addr)) *Paths { return &Paths{warn: warn, limit: door.NewPaths()} }

// shortHeader reports whether a packet belongs to a connection whose handshake is complete.
// Until then quic-go itself limits what it sends to an address (RFC 9000, section 8.1).
func shortHeader(packet []byte) bool { return packet[0]&0x80 == 0 }

// Came implements sealed.Guard. It is called for each packet that QUIC receives.
func (p *Paths) Came(from netip.AddrPort, packet []byte) {
	if !shortHeader(packet) || len(packet) <= ConnectionIDBytes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := door.ConnID(packet[1:])
	if !p.limit.CameHome(from, id) { // hardly ever
		p.limit.Came(from, id, len(packet), time.Now())
	}
}

// Route implements sealed.Guard. Of the packets, only the first may have a long header. also is
// where else to send them, or nil.
func (p *Paths) Route(to net.Addr, packets []byte) (also net.Addr, ok bool) {
	if !shortHeader(packets) {
		return nil, true
	}
	also, ok = p.allows(udp.AddrPort(to), len(packets))
	if !ok {
		p.warn(to)
	}
	return also, ok
}

// allows is Route for packets with a short header.
func (p *Paths) allows(to netip.AddrPort, size int) (also net.Addr, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit.Knows(to) {
		return p.copies(to, size), true
	}
	now := time.Now()
	// Look first. If a connection has proven the address by now, it gets its allowance back.
	p.look(now)
	return nil, p.limit.Spend(to, size, now)
}

// copies returns where else to send packets that are for a proven address, or nil.
func (p *Paths) copies(to netip.AddrPort, size int) net.Addr {
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

// Begin is called when a handshake begins. It counts for the client's address until ctx is done.
// proven tells whether the client has shown a token.
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
	if p.limit.Proven() >= p.most {
		p.renew()
	}
	p.limit.Prove(udp.AddrPort(remote))
}

// Follow is called when the listener listens. remotes yields the addresses of all connections,
// by their unique numbers.
func (p *Paths) Follow(remotes iter.Seq2[uint64, net.Addr]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remotes = remotes
}

// look calls renew, unless it has done so within the last lookTime. The caller holds mu.
func (p *Paths) look(now time.Time) {
	if now.Sub(p.looked) >= lookTime {
		p.looked = now
		p.renew()
	}
}

// renew brings the proven addresses up to date. It removes those without a connection, and adds
// those that connections have moved to. The caller holds mu.
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
	p.most = 2*p.limit.Proven() + fewPaths
}
