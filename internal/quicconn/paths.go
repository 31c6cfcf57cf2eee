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
	// lookTime is the least time between two looks at where all connections are, while packets leave for addresses that are not known.
	lookTime = 10 * time.Millisecond
	// fewPaths is how many proven addresses are kept in any case. When there are twice as many as connections besides, they are looked up anew.
	fewPaths = 64
)

// Paths stands before quic-go's socket on a server: it holds back packets to addresses that no connection has proven, as [door.Paths] says.
// It is a [sealed.Guard]. Its methods are safe for concurrent use.
type Paths struct {
	warn func(to net.Addr) // called for each packet that is held back

	mu      sync.Mutex // taken before the listener's
	limit   *door.Paths
	remotes iter.Seq2[uint64, net.Addr] // of all connections, by their numbers; nil until the listener listens
	looked  time.Time
	most    int // proven addresses at which they are looked up anew
}

// NewPaths returns Paths that know no connection. warn is called for each packet that is held back; it must not block.
func NewPaths(warn func(to net.Addr)) *Paths { return &Paths{warn: warn, limit: door.NewPaths()} }

// shortHeader reports whether a packet belongs to a connection whose handshake is over. For the others quic-go counts what it answers
// (RFC 9000, section 8.1).
func shortHeader(packet []byte) bool { return packet[0]&0x80 == 0 }

// Came notes a packet that QUIC gets.
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

// Route reports whether QUIC may send packets, of which only the first may have a long header, and where else to send them; nil = nowhere.
func (p *Paths) Route(to net.Addr, packets []byte) (also net.Addr, ok bool) {
	if !shortHeader(packets) {
		return nil, true
	}
	if also, ok = p.allows(udp.AddrPort(to), len(packets)); !ok {
		p.warn(to)
	}
	return also, ok
}

// allows is Route for packets of connections.
func (p *Paths) allows(to netip.AddrPort, size int) (also net.Addr, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit.Knows(to) {
		return p.copies(to, size), true
	}
	now := time.Now()
	p.look(now) // first, for one who has proven the address has his allowance back before the next move
	return nil, p.limit.MaySend(to, size, now)
}

// copies returns where packets for a proven address go, too.
func (p *Paths) copies(to netip.AddrPort, size int) net.Addr {
	if !p.limit.Moving() {
		return nil
	}
	if also, ok := p.limit.Copy(to, size, time.Now()); ok {
		return net.UDPAddrFromAddrPort(also)
	}
	return nil
}

// MustProve reports whether a client must prove its address by a Retry before its handshake begins.
func (p *Paths) MustProve(remote net.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit.MustProve(udp.AddrPort(remote))
}

// Begin notes a handshake with an address, which ends with ctx. proven says that the client has shown a token.
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

// Prove notes the address of a new connection.
func (p *Paths) Prove(remote net.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit.Proven() >= p.most {
		p.renew()
	}
	p.limit.Prove(udp.AddrPort(remote))
}

// Follow says how to learn where all connections are, by their numbers, of which no two are the same.
func (p *Paths) Follow(remotes iter.Seq2[uint64, net.Addr]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remotes = remotes
}

// look looks where all connections are, if it has not just done so.
func (p *Paths) look(now time.Time) {
	if now.Sub(p.looked) >= lookTime {
		p.looked = now
		p.renew()
	}
}

// renew forgets the addresses that are no longer of a connection, and learns those that connections have moved to.
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
