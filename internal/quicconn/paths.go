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
	// lookTime is the minimum time between two calls of renew while packets are sent to
	// unknown addresses.
	lookTime = 10 * time.Millisecond
	// fewPaths is the number of proven addresses that are kept in any case. If there are
	// more, and more than twice the number at the last renew, renew is called again.
	fewPaths = 64
)

// Paths guards quic-go's socket on a server. It holds back packets to addresses that no
// connection has proven, as [door.Paths] describes. It is a [sealed.Guard]. Its methods may
// be called concurrently.
type Paths struct {
	warn func(to net.Addr) // called for each packet that is held back

	mu    sync.Mutex // locked before the listener's lock
	limit *door.Paths
	// The addresses of all connections by connection number. Nil until the listener listens.
	remotes iter.Seq2[uint64, net.Addr]
	looked  time.Time // when renew was last called by look
	most    int       // number of proven addresses at which Prove calls renew
}

// NewPaths returns Paths without connections. warn is called for each packet that is held
// back. It must not block.
func NewPaths(warn func(to net.Addr)) *Paths { return &Paths{warn: warn, limit: door.NewPaths()} }

// shortHeader reports whether a packet belongs to a connection whose handshake is complete.
// For other packets, quic-go itself limits what it sends to the address (RFC 9000, section
// 8.1).
func shortHeader(packet []byte) bool { return packet[0]&0x80 == 0 }

// Came implements sealed.Guard. It is called for each packet that QUIC receives.
func (p *Paths) Came(from netip.AddrPort, packet []byte) {
	if !shortHeader(packet) || len(packet) <= ConnectionIDBytes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := door.ConnID(packet[1:])
	if !p.limit.Stays(from, id) { // nearly all packets stay
		p.limit.Came(from, id, len(packet), time.Now())
	}
}

// Route implements sealed.Guard. Only the first of the packets may have a long header. also
// is another address to which to send them, or nil if there is none.
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
	p.look(now) // first, so that a connection that has proven the address has its allowance back
	return nil, p.limit.MaySend(to, size, now)
}

// copies returns the address to which packets for a proven address must also be sent, or nil.
func (p *Paths) copies(to netip.AddrPort, size int) net.Addr {
	if !p.limit.Moving() {
		return nil
	}
	if also, ok := p.limit.Copy(to, size, time.Now()); ok {
		return net.UDPAddrFromAddrPort(also)
	}
	return nil
}

// MustProve reports whether a client must prove its address by a Retry before its handshake.
func (p *Paths) MustProve(remote net.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit.MustProve(udp.AddrPort(remote))
}

// Begin counts a handshake with an address until ctx is done. proven says whether the client
// has shown a token.
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

// Follow sets the function that yields the addresses of all connections by their unique
// numbers.
func (p *Paths) Follow(remotes iter.Seq2[uint64, net.Addr]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remotes = remotes
}

// look calls renew unless it did so within lookTime. The caller holds mu.
func (p *Paths) look(now time.Time) {
	if now.Sub(p.looked) >= lookTime {
		p.looked = now
		p.renew()
	}
}

// renew removes addresses that no longer belong to a connection and adds those to which
// connections have moved. The caller holds mu.
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
