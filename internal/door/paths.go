package door

import (
	"iter"
	"net/netip"
	"time"
)

const (
	// amplification is the number of bytes that we may send to an unproven address for each byte
	// that we have received from it (RFC 9000, section 8).
	amplification = 3

	// pathAllowance is the number of bytes that we may send to an unproven address in addition. A
	// client that has moved needs them, because each PATH_CHALLENGE fills a datagram (RFC 9000,
	// section 8.2.1), while the client sends only small packets if it doesn't know that its address
	// has changed. They are enough for ten full datagrams.
	pathAllowance = 10 * 1200

	// copyReserve is the part of an address's allowance that copies of packets must not use,
	// because it is needed for the PATH_CHALLENGEs that prove the address.
	copyReserve = pathAllowance / 2

	// maxCopied is the maximum number of bytes of copies that we send on behalf of a client until
	// it has proven another address. Each byte that arrives from the address to which the copies go
	// allows three more.
	//
	// This is enough for a client that moves four times in a row. If a client forges many
	// addresses, it is the limit for all of them together.
	maxCopied = 4 * (pathAllowance - copyReserve)

	// handshakeAllowance is the number of bytes that we may send to an address while a handshake
	// from it completes and we can't know yet that it's proven. The allowance is for the
	// confirmation of the handshake, for connection IDs and for probes of the path's MTU.
	handshakeAllowance = 16 * 1200

	// maxUnproven is the number of handshakes from an address that may begin without a proof. Any
	// more get a Retry first (RFC 9000, section 8.1.2). A home network normally stays below this
	// limit and doesn't lose a round trip to the Retry, but somebody who forges an address can make
	// us send handshakeAllowance to it only this many times.
	maxUnproven = 4

	// pathTime is the minimum time for which we remember an address that sends nothing.
	pathTime = 10 * time.Second

	// maxPaths is the maximum number of addresses in newer, and in older. By filling both, an
	// attacker can make us forget an address and renew its allowance, but that takes more bytes
	// than the allowance has.
	maxPaths = 4096
)

// A ConnID is a connection ID that a server has issued, of quicconn.ConnectionIDBytes bytes.
type ConnID [17]byte

// Paths enforces a server's anti-amplification limit (RFC 9000, section 8), which quic-go alone
// doesn't enforce. Packets may be forged until their source address is proven, and quic-go answers
// any PATH_CHALLENGE with a full packet, even if the challenge came in a small one. Only what we
// send is limited. Everything that we receive goes through, because a client that has moved needs
// this to prove its new address.
//
// Paths also notices where clients may have moved: if a connection ID that belongs to one address
// arrives from another, its client may have moved there. The ID stays the same because a client
// doesn't notice when a NAT gives it another port (RFC 9000, section 9.5).
//
// As in Mobile IP, the proven address of a client is its home, and an unproven one where the client
// may be instead is away.
type Paths struct {
	// Proven addresses, which are those of connections.
	homes map[netip.AddrPort]*home
	byID  map[ConnID]*home          // by newest ID; if several share it, the one it last came from
	conns map[uint64]netip.AddrPort // address of each connection, by number
	moved int                       // number of homes with a valid away

	// The number of bytes that may still be sent to an address while a handshake from it completes.
	handshakes map[netip.AddrPort]int

	// Unproven addresses, by prefixOf. rotate moves newer to older and drops the previous older.
	newer, older map[netip.Prefix]unproven
	rotatedAt    time.Time // when newer was last empty
}

// A home is a proven address, with what we know about the client there.
type home struct {
	id    ConnID         // newest ID in packets from the address, if hasID
	hasID bool           // a packet has arrived from the address since it was proven
	away  netip.AddrPort // where the latest packet with id came from; invalid if it came from here

	// The bytes of copies that we sent, minus amplification times the bytes received from away, but
	// at least 0. copied never exceeds maxCopied.
	copied int
}

// A move says that the client with an ID has moved to another proven address.
type move struct {
	to *home
	id ConnID
}

// unproven is what we know about an unproven address.
type unproven struct {
	allowance int // number of bytes that may still be sent there
	begun     int // number of handshakes that began without a proof
}

// NewPaths returns the Paths of a server without connections.
func NewPaths() *Paths {
	return &Paths{
		homes: make(map[netip.AddrPort]*home), byID: make(map[ConnID]*home),
		handshakes: make(map[netip.AddrPort]int),
		newer:      make(map[netip.Prefix]unproven),
	}
}

// Prove adds the address of a connection. From now on, we may send there without limit.
func (p *Paths) Prove(at netip.AddrPort) {
	if !p.Knows(at) {
		p.restoreAllowance(prefixOf(at.Addr()))
		p.homes[at] = new(home)
	}
}

// Renew replaces the proven addresses by those in remotes, which yields the current addresses of
// all connections by their numbers. If a connection's address has changed, what we know about its
// client moves along, because the client may have moved on again before its new address was proven.
func (p *Paths) Renew(remotes iter.Seq2[uint64, netip.AddrPort]) {
	homes := make(map[netip.AddrPort]*home, len(p.homes))
	conns := make(map[uint64]netip.AddrPort, len(p.conns))
	var moves []move // carried out at the end, because a client may be where another one was before
	for conn, at := range remotes {
		p.Prove(at)
		homes[at] = p.homes[at]
		conns[conn] = at
		before := p.conns[conn]
		if h := p.homes[before]; before != at && h != nil && h.hasID {
			moves = append(moves, move{p.homes[at], h.id})
			p.forget(h)
		}
	}
	for _, m := range moves {
		p.identify(m.to, m.id)
	}
	for at, h := range p.homes {
		if homes[at] == nil {
			p.forget(h)
		}
	}
	p.homes = homes
	p.conns = conns
}

// identify records which ID the client at a proven address has.
func (p *Paths) identify(h *home, id ConnID) {
	p.forget(h)
	h.id = id
	h.hasID = true
	p.byID[id] = h
}

// forget drops what we know about the client at an address.
func (p *Paths) forget(h *home) {
	if p.byID[h.id] == h {
		delete(p.byID, h.id)
	}
	h.hasID = false
	p.setAway(h, netip.AddrPort{})
}

// setAway records where the client of a proven address may have moved. to is invalid if the client
// is at home.
func (p *Paths) setAway(h *home, to netip.AddrPort) {
	if h.away.IsValid() {
		p.moved--
	}
	h.away = to
	if to.IsValid() {
		p.moved++
	}
}

// restoreAllowance restores an address's allowance when a client proves that it receives there.
// Otherwise a client that moves back and forth would use up the allowance in ten moves. Merely
// staying there doesn't restore it.
func (p *Paths) restoreAllowance(address netip.Prefix) {
	for _, m := range [...]map[netip.Prefix]unproven{p.newer, p.older} {
		if u, ok := m[address]; ok {
			u.allowance = pathAllowance
			m[address] = u
		}
	}
}

// MustProve reports whether a client must prove its address before its handshake may begin.
// Otherwise somebody who forges an address could have data sent to it with every handshake.
func (p *Paths) MustProve(from netip.AddrPort) bool {
	return p.lookUp(prefixOf(from.Addr())).begun >= maxUnproven
}

// Begin allows the first packets to a client, which we send before we notice that its handshake is
// complete. Without this allowance, many clients that share an address would have to wait for each
// other. proven is set if the client has shown a token that it received at that address.
func (p *Paths) Begin(from netip.AddrPort, proven bool, now time.Time) {
	if address := prefixOf(from.Addr()); address.IsValid() && !proven {
		p.rotate(now)
		u := p.lookUp(address)
		u.begun++
		p.newer[address] = u
	}
	p.handshakes[from] = handshakeAllowance
}

// End withdraws the allowance of Begin. It is called when a connection's address is proven, or when
// the connection has ended.
func (p *Paths) End(from netip.AddrPort) { delete(p.handshakes, from) }

// Proven returns the number of proven addresses.
func (p *Paths) Proven() int { return len(p.homes) }

// Knows reports whether an address is proven.
func (p *Paths) Knows(at netip.AddrPort) bool { return p.homes[at] != nil }

// ReceivedFromHome is called with each packet of a connection. It returns true if the packet came
// from the client's home, which is a proven address where we have seen the same ID before, so that
// the client hasn't moved. Otherwise the caller must call Received.
func (p *Paths) ReceivedFromHome(from netip.AddrPort, id ConnID) bool {
	h := p.homes[from]
	if h == nil || !h.hasID || h.id != id {
		return false
	}
	p.setAway(h, netip.AddrPort{})
	return true
}

// Received is called with a packet of a connection. If the packet comes from an unproven address,
// it allows us to send amplification times its size back there.
func (p *Paths) Received(from netip.AddrPort, id ConnID, size int, now time.Time) {
	if p.ReceivedFromHome(from, id) {
		return
	}
	if h := p.homes[from]; h != nil {
		// The client has changed its ID, or another client has taken its place.
		p.identify(h, id)
		return
	}
	address := prefixOf(from.Addr())
	if !address.IsValid() {
		return
	}
	if h := p.byID[id]; h != nil {
		// This client's home is another address, so it may have moved here.
		p.setAway(h, from)
		h.copied = max(0, h.copied-amplification*size)
	}
	p.rotate(now)
	u := p.lookUp(address)
	u.allowance = min(u.allowance+amplification*size, pathAllowance)
	p.newer[address] = u
}

// Moving reports whether any client may have moved. If not, there's no need to call SpendCopy.
func (p *Paths) Moving() bool { return p.moved > 0 }

// SpendCopy returns a second address to send a packet of size bytes to, which is where the client
// of the address to may have moved, and deducts the copy from that address's allowance. ok is false
// if maxCopied doesn't allow a copy, or if too little of the allowance would remain to prove the
// new address.
//
// Copies are necessary because QUIC needs a connection ID from the client to prove an address, and
// when it runs out of IDs, it asks for more at the old address. A client that has moved a few times
// within a second would never receive that request, and would be cut off until IdleTimeout.
func (p *Paths) SpendCopy(to netip.AddrPort, size int, now time.Time) (also netip.AddrPort, ok bool) {
	h := p.homes[to]
	if h == nil || !h.away.IsValid() || h.copied+size > maxCopied {
		return also, false
	}
	allowance := p.lookUp(prefixOf(h.away.Addr())).allowance
	if allowance < size+copyReserve || !p.Spend(h.away, size, now) {
		return also, false
	}
	h.copied += size
	return h.away, true
}

// Spend deducts a packet of size bytes from an address's allowance. It returns false if the rest of
// the allowance is smaller, in which case the packet must not be sent. A proven address needs no
// allowance.
func (p *Paths) Spend(to netip.AddrPort, size int, now time.Time) bool {
	address := prefixOf(to.Addr())
	if p.Knows(to) || !address.IsValid() {
		return true
	}
	if left := p.handshakes[to]; left >= size {
		p.handshakes[to] = left - size
		return true
	}
	p.rotate(now)
	u := p.lookUp(address)
	if u.allowance < size {
		return false
	}
	u.allowance -= size
	p.newer[address] = u
	return true
}

// lookUp returns what we know about an unproven address. A new address has its full allowance.
func (p *Paths) lookUp(address netip.Prefix) unproven {
	if u, ok := p.newer[address]; ok {
		return u
	}
	if u, ok := p.older[address]; ok {
		return u
	}
	return unproven{allowance: pathAllowance}
}

// rotate forgets addresses that haven't been used for pathTime, or earlier if there are maxPaths
// newer ones.
func (p *Paths) rotate(now time.Time) {
	if now.Sub(p.rotatedAt) < pathTime && len(p.newer) < maxPaths {
		return
	}
	p.older = p.newer
	p.newer = make(map[netip.Prefix]unproven)
	p.rotatedAt = now
}
