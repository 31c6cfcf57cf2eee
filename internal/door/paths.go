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

	// pathAllowance is the number of bytes that we may send to an unproven address in addition. We
	// need them because each PATH_CHALLENGE fills a datagram (RFC 9000, section 8.2.1), while a
	// client sends only small packets if it doesn't know that its address has changed. They are
	// enough for ten full datagrams.
	pathAllowance = 10 * 1200

	// copyReserve is the part of an address's allowance that copies of packets must not use. It is
	// for the PATH_CHALLENGEs that prove the address.
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
	// more get a Retry first (RFC 9000, section 8.1.2). A household normally stays below this limit
	// and doesn't lose a round trip to the Retry. But somebody who forges an address can make us
	// send handshakeAllowance to it only four times.
	maxUnproven = 4

	// pathTime is the minimum time for which we remember an address that sends nothing.
	pathTime = 10 * time.Second

	// maxPaths is the maximum number of addresses in newer, and in older. By filling both, an
	// attacker can make us forget an address and renew its allowance. But that takes more bytes
	// than the allowance has.
	maxPaths = 4096
)

// A ConnID is a connection ID that a server has issued, of quicconn.ConnectionIDBytes bytes.
type ConnID [17]byte

// Paths enforces a server's anti-amplification limit (RFC 9000, section 8), which quic-go alone
// doesn't enforce. Packets may be forged until their source address is proven, and quic-go answers
// any PATH_CHALLENGE with a full packet, even if the challenge came in a small one. We hold back
// only what we send. Everything that we receive goes through, since a client that has moved needs
// this to prove its new address.
//
// Paths also notices where clients may have moved: if a connection ID that belongs to one address
// arrives from another, its client may be there now. The ID stays the same because a client isn't
// told when a NAT gives it another port (RFC 9000, section 9.5).
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
	away  netip.AddrPort // where packets with id have come from since; invalid if still from here

	// The bytes of copies that we have sent, minus three times the bytes received from away, but at
	// least 0. copied never exceeds maxCopied.
	copied int
}

// An arrival is a client that has moved to another proven address.
type arrival struct {
	at *home
	id ConnID
}

// unproven is what we know about an unproven address.
type unproven struct {
	left  int // number of bytes that may still be sent there
	begun int // number of handshakes that have begun without a proof
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

// Renew is given the current addresses of all connections, by their numbers. Other addresses are
// removed. If a connection's address has changed, what we know about its client moves along,
// because the client may have moved on again by the time the new address is proven.
func (p *Paths) Renew(remotes iter.Seq2[uint64, netip.AddrPort]) {
	homes := make(map[netip.AddrPort]*home, len(p.homes))
	conns := make(map[uint64]netip.AddrPort, len(p.conns))
	var came []arrival // identified at the end, because a client may be where another was before
	for conn, at := range remotes {
		p.Prove(at)
		homes[at] = p.homes[at]
		conns[conn] = at
		left := p.conns[conn]
		if h := p.homes[left]; left != at && h != nil && h.hasID {
			came = append(came, arrival{p.homes[at], h.id})
			p.forget(h)
		}
	}
	for _, c := range came {
		p.identify(c.at, c.id)
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
// is still where it was.
func (p *Paths) setAway(h *home, to netip.AddrPort) {
	if h.away.IsValid() {
		p.moved--
	}
	h.away = to
	if to.IsValid() {
		p.moved++
	}
}

// restoreAllowance restores an address's allowance when a client has just proven that it receives
// there. Otherwise a client that moves back and forth would use up the allowance in ten moves.
// Merely staying there doesn't restore it.
func (p *Paths) restoreAllowance(address netip.Prefix) {
	for _, m := range [...]map[netip.Prefix]unproven{p.newer, p.older} {
		if u, ok := m[address]; ok {
			u.left = pathAllowance
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
// other. proven tells whether the client has shown a token that it received at that address.
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

// CameHome is called with a packet of a connection. It reports whether the packet comes from where
// the client is known to be, which is a proven address where we have seen the same ID before. If it
// does, the client hasn't moved. If it doesn't, the caller must call Came.
func (p *Paths) CameHome(from netip.AddrPort, id ConnID) bool {
	h := p.homes[from]
	if h == nil || !h.hasID || h.id != id {
		return false
	}
	p.setAway(h, netip.AddrPort{})
	return true
}

// Came is called with a packet of a connection. We may send three times its size back to its
// source.
func (p *Paths) Came(from netip.AddrPort, id ConnID, size int, now time.Time) {
	if p.CameHome(from, id) {
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
		// This client is at home elsewhere, so it may have moved here.
		p.setAway(h, from)
		h.copied = max(0, h.copied-amplification*size)
	}
	p.rotate(now)
	u := p.lookUp(address)
	u.left = min(u.left+amplification*size, pathAllowance)
	p.newer[address] = u
}

// Moving reports whether any client may have moved. If not, there's no need to call SpendCopy.
func (p *Paths) Moving() bool { return p.moved > 0 }

// SpendCopy returns a second address to which we should send a packet of size bytes for to, and
// deducts the copy from that address's allowance. It's the address to which the client may have
// moved. ok is false if maxCopied doesn't allow a copy, or if too little of the allowance would
// remain to prove the new address.
//
// To prove an address, QUIC needs a connection ID from the client. When it runs out of IDs, it asks
// for more at the old address. If we didn't copy that request, a client that has moved a few times
// within a second would never receive it, and would be cut off until IdleTimeout.
func (p *Paths) SpendCopy(to netip.AddrPort, size int, now time.Time) (also netip.AddrPort, ok bool) {
	h := p.homes[to]
	if h == nil || !h.away.IsValid() || h.copied+size > maxCopied {
		return also, false
	}
	leaves := p.lookUp(prefixOf(h.away.Addr())).left >= size+copyReserve
	if !leaves || !p.Spend(h.away, size, now) {
		return also, false
	}
	h.copied += size
	return h.away, true
}

// Spend deducts size bytes from an address's allowance before they are sent. It returns false if
// there aren't as many left, and the packet may not be sent then. A proven address needs no
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
	if u.left < size {
		return false
	}
	u.left -= size
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
	return unproven{left: pathAllowance}
}

// rotate forgets addresses that haven't been used for pathTime. It forgets them earlier if there
// are maxPaths newer addresses.
func (p *Paths) rotate(now time.Time) {
	if now.Sub(p.rotatedAt) < pathTime && len(p.newer) < maxPaths {
		return
	}
	p.older = p.newer
	p.newer = make(map[netip.Prefix]unproven)
	p.rotatedAt = now
}
