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
	// lookTime is the least time between two calls of renew while packets are
	// sent to unknown addresses.
	lookTime = 10 * time.Millisecond
	// fewPaths is how many proven addresses are kept in any case. If there are more
	// than that and twice the number at the last renew, renew is called again.
	fewPaths = 64
)

// Paths guards quic-go's socket on a server: it holds back packets to addresses
// that no connection has proven, as described at [door.Paths]. It is a
// [sealed.Guard]. Its methods may be called concurrently.
type Paths struct {
	warn func(to net.Addr) // called for each packet that is held back

	mu    sync.Mutex // locked before the listener's lock
	limit *door.Paths
	// The addresses of all connections, by connection number; nil until the listener listens.
	remotes iter.Seq2[uint64, net.Addr]
	looked  time.Time // when renew was last called by look
	most    int       // number of proven addresses at which Prove calls renew
}

// NewPaths returns Paths that know no connection. warn is called for each
// packet that is held back; it must not block.
func NewPaths(warn func(to net.Addr)) *Paths { return &Paths{warn: warn, limit: door.NewPaths()} }

// shortHeader reports whether a packet belongs to a connection whose handshake is complete. For
// other packets quic-go itself limits what it sends to the address (RFC 9000, section 8.1).
func shortHeader(packet []byte) bool { return packet[0]&0x80 == 0 }

// Came implements sealed.Guard: it is called for each packet that QUIC receives.
func (p *Paths) Came(from netip.AddrPort, packet []byte) {
	if !shortHeader(packet) || len(packet) <= ConnectionIDBytes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if id := door.ConnID(packet[1:]); !p.limit.Stays(from, id) { // as nearly all do
		p.limit.Came(from, id, len(packet), time.Now())
	}
}

// Route implements sealed.Guard. Of packets only the first may have a long
// header. also is another address to send them to; nil = none.
func (p *Paths) Route(to net.Addr, packets []byte) (also net.Addr, ok bool) {
	if !shortHeader(packets) {
		return nil, true
	}
	if also, ok = p.allows(udp.AddrPort(to), len(packets)); !ok {
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
	p.look(now) // first, because a connection that has proven the address has its allowance back before the next move
	return nil, p.limit.MaySend(to, size, now)
}

// copies returns the address to which packets for a proven address are sent as well, or nil.
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

// Begin counts a handshake with an address until ctx is done. proven is whether
// the client has shown a token.
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

// Follow sets the function that yields the addresses of all connections by
// their numbers, which are unique.
func (p *Paths) Follow(remotes iter.Seq2[uint64, net.Addr]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remotes = remotes
}

// look calls renew, unless it has done so within lookTime. The caller holds mu.
func (p *Paths) look(now time.Time) {
	if now.Sub(p.looked) >= lookTime {
		p.looked = now
		p.renew()
	}
}

// renew removes addresses that are not of a connection any more, and adds those
// to which connections have moved. The caller holds mu.
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
