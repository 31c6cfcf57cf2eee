package door

import (
	"iter"
	"net/netip"
	"time"
)

const (
	// amplification is how many times the bytes received from an address may be
	// sent to it before it is proven (RFC 9000, section 8).
	amplification = 3
	// pathAllowance is how many bytes an address may be sent in addition. A client whose
	// address has changed does not know that, and its packets are small, while each
	// PATH_CHALLENGE fills a datagram (RFC 9000, section 8.2.1). The allowance is ten of them.
	pathAllowance = 10 * 1200
	// copiesLeave is how much of an address's allowance copies of packets must
	// leave for the PATH_CHALLENGEs that are to prove the address.
	copiesLeave = pathAllowance / 2
	// mostCopied is how many bytes of copies may be sent for an address in all, beyond
	// three times what was received from where they are sent, until its client has
	// proven another address. So a client that forges many addresses has no more sent
	// to all of them together, and one that moves four times in a row gets its copies.
	mostCopied = 4 * (pathAllowance - copiesLeave)
	// joining is how many bytes an address may be sent while a handshake from it
	// completes, before the address is known to be proven: for the confirmation
	// of the handshake, connection ids, and probes of the path's MTU.
	joining = 16 * 1200
	// newcomers is how many handshakes from an address may begin before further ones must prove
	// it by a Retry (RFC 9000, section 8.1.2). So a household spends no round trip on a proof,
	// and an attacker who forges an address has joining bytes sent to it four times at most.
	newcomers = 4
	// pathTime is the least time for which an address that sends nothing is remembered.
	pathTime = 10 * time.Second
	// mostPaths is the most addresses in newer, and in older. An attacker who fills them, to have
	// an address forgotten and its allowance renewed, must send more bytes than the allowance has.
	mostPaths = 4096
)

// A ConnID is a connection id that a server has issued; it has quicconn.ConnectionIDBytes bytes.
type ConnID [17]byte

// Paths keeps a server within the limit of RFC 9000, section 8, when it sends to addresses that
// were not proven: packets from such an address may be forged. quic-go answers each PATH_CHALLENGE
// by a full packet, however small the packet with the challenge was. Packets received from such an
// address are never held back, because a client that has moved proves its new address by them.
//
// Paths also finds addresses to which clients may have moved: those from which packets arrive
// with a connection id that was received from another address before. A NAT that gives a
// client another port does not inform it, so the id stays the same (RFC 9000, section 9.5).
type Paths struct {
	homes map[netip.AddrPort]*home // the proven addresses, which are those of connections
	// Homes by their newest id; of two homes with one id, the one from which it arrived last.
	byID  map[ConnID]*home
	conns map[uint64]netip.AddrPort // addresses of connections, by their numbers
	moved int                       // number of homes whose away is valid

	handshakes   map[netip.AddrPort]int    // bytes that may still be sent, by the address of the handshake
	newer, older map[netip.Prefix]unproven // by prefixOf the address
	turned       time.Time                 // when newer was begun
}

// home is a proven address, and what is known of its client.
type home struct {
	id     ConnID         // the newest in packets from there; valid if known
	known  bool           // a packet has arrived from there since the address was proven
	away   netip.AddrPort // from where packets with that id have arrived since; not valid = from nowhere else
	copied int            // bytes of copies sent for it, minus three times what was received from away, but at least 0
}

// arrival is a client, by its newest id, at the proven address to which it has moved.
type arrival struct {
	at *home
	id ConnID
}

// unproven is an address that was not proven.
type unproven struct {
	left  int // bytes that may still be sent there
	begun int // handshakes begun without a proof
}

// NewPaths returns Paths of a server without connections.
func NewPaths() *Paths {
	return &Paths{
		homes: make(map[netip.AddrPort]*home), byID: make(map[ConnID]*home),
		handshakes: make(map[netip.AddrPort]int),
		newer:      make(map[netip.Prefix]unproven),
	}
}

// Prove adds an address of a connection, to which everything may be sent from now on.
func (p *Paths) Prove(at netip.AddrPort) {
	if !p.Knows(at) {
		p.settle(prefixOf(at.Addr()))
		p.homes[at] = new(home)
	}
}

// Renew sets the addresses of all connections, by their numbers, and removes
// other addresses. What is known of a client moves with its connection: its
// packets may arrive from elsewhere already when its new address is proven.
func (p *Paths) Renew(remotes iter.Seq2[uint64, netip.AddrPort]) {
	homes, conns := make(map[netip.AddrPort]*home, len(p.homes)), make(map[uint64]netip.AddrPort, len(p.conns))
	var came []arrival // applied after all others have left, because a client may be where another was
	for conn, at := range remotes {
		p.Prove(at)
		homes[at], conns[conn] = p.homes[at], at
		left := p.conns[conn]
		if h := p.homes[left]; left != at && h != nil && h.known {
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
	p.homes, p.conns = homes, conns
}

// identify records the id of the client at a proven address.
func (p *Paths) identify(h *home, id ConnID) {
	p.forget(h)
	h.id, h.known, p.byID[id] = id, true, h
}

// forget removes what is known of the client at an address.
func (p *Paths) forget(h *home) {
	if p.byID[h.id] == h {
		delete(p.byID, h.id)
	}
	h.known = false
	p.moves(h, netip.AddrPort{})
}

// moves records where the client of a proven address may be; not valid = at that address.
func (p *Paths) moves(h *home, to netip.AddrPort) {
	if h.away.IsValid() {
		p.moved--
	}
	if h.away = to; to.IsValid() {
		p.moved++
	}
}

// settle restores the allowance of an address, because a client has just proven
// that it receives there. Otherwise a client that moves back and forth would
// have used it up after ten times. A client that stays does not restore it.
func (p *Paths) settle(address netip.Prefix) {
	for _, m := range [...]map[netip.Prefix]unproven{p.newer, p.older} {
		if u, ok := m[address]; ok {
			u.left = pathAllowance
			m[address] = u
		}
	}
}

// MustProve reports whether a client must prove its address before its handshake begins. Otherwise
// an attacker who forges the address could have as much sent to it as it begins handshakes.
func (p *Paths) MustProve(from netip.AddrPort) bool {
	return p.from(prefixOf(from.Addr())).begun >= newcomers
}

// Begin allows the first packets to a client that are sent before the server has noticed the end
// of its handshake. Without that, the clients of a crowd with one address would wait for each
// other. proven is whether the client has shown a token, which it had received at that address.
func (p *Paths) Begin(from netip.AddrPort, proven bool, now time.Time) {
	if address := prefixOf(from.Addr()); address.IsValid() && !proven {
		p.turn(now)
		u := p.from(address)
		u.begun++
		p.newer[address] = u
	}
	p.handshakes[from] = joining
}

// End is called when a connection is proven or has ended, and removes what Begin has allowed.
func (p *Paths) End(from netip.AddrPort) { delete(p.handshakes, from) }

// Proven returns the number of proven addresses.
func (p *Paths) Proven() int { return len(p.homes) }

// Knows reports whether an address is proven.
func (p *Paths) Knows(at netip.AddrPort) bool { return p.homes[at] != nil }

// Stays reports whether a packet of a connection came from a proven address from which packets
// with its id have arrived before. If so, the client is there, and Came need not be called.
func (p *Paths) Stays(from netip.AddrPort, id ConnID) bool {
	h := p.homes[from]
	if h == nil || !h.known || h.id != id {
		return false
	}
	p.moves(h, netip.AddrPort{})
	return true
}

// Came records a packet of a connection, so that three times its size may be sent to its source.
func (p *Paths) Came(from netip.AddrPort, id ConnID, size int, now time.Time) {
	if p.Stays(from, id) {
		return
	}
	if h := p.homes[from]; h != nil {
		p.identify(h, id)
		return
	}
	address := prefixOf(from.Addr())
	if !address.IsValid() {
		return
	}
	if h := p.byID[id]; h != nil {
		p.moves(h, from)
		h.copied = max(0, h.copied-amplification*size)
	}
	p.turn(now)
	u := p.from(address)
	u.left = min(u.left+amplification*size, pathAllowance)
	p.newer[address] = u
}

// Moving reports whether some client may have moved, so that Copy is of use.
func (p *Paths) Moving() bool { return p.moved > 0 }

// Copy returns the address to which size bytes for an address must be sent as well: where
// its client may have moved, if enough bytes remain to prove that address, and mostCopied
// allows it. QUIC proves a new address with a connection id that the client has given it,
// and asks for more at the old one. Without copies, a client that has moved a few times
// within a second would never receive that, and would be cut off until IdleTimeout.
func (p *Paths) Copy(to netip.AddrPort, size int, now time.Time) (also netip.AddrPort, ok bool) {
	h := p.homes[to]
	if h == nil || !h.away.IsValid() || h.copied+size > mostCopied {
		return also, false
	}
	leaves := p.from(prefixOf(h.away.Addr())).left >= size+copiesLeave
	if !leaves || !p.MaySend(h.away, size, now) {
		return also, false
	}
	h.copied += size
	return h.away, true
}

// MaySend reports whether size bytes may be sent to an address, and subtracts
// them from what is left.
func (p *Paths) MaySend(to netip.AddrPort, size int, now time.Time) bool {
	address := prefixOf(to.Addr())
	if p.Knows(to) || !address.IsValid() {
		return true
	}
	if left := p.handshakes[to]; left >= size {
		p.handshakes[to] = left - size
		return true
	}
	p.turn(now)
	u := p.from(address)
	if u.left < size {
		return false
	}
	u.left -= size
	p.newer[address] = u
	return true
}

// from returns the state of an address.
func (p *Paths) from(address netip.Prefix) unproven {
	if u, ok := p.newer[address]; ok {
		return u
	}
	if u, ok := p.older[address]; ok {
		return u
	}
	return unproven{left: pathAllowance}
}

// turn removes the addresses from which nothing was received for pathTime, or
// sooner if there are mostPaths.
func (p *Paths) turn(now time.Time) {
	if now.Sub(p.turned) < pathTime && len(p.newer) < mostPaths {
		return
	}
	p.older, p.newer, p.turned = p.newer, make(map[netip.Prefix]unproven), now
}
