package door

import (
	"iter"
	"net/netip"
	"time"
)

const (
	// amplification limits what may be sent to an address before it is proven: three bytes
	// for each byte received from it (RFC 9000, section 8).
	amplification = 3
	// pathAllowance is the number of bytes an address may be sent in addition. A client does
	// not know that its address has changed, so its packets are small, while each
	// PATH_CHALLENGE fills a datagram (RFC 9000, section 8.2.1). The allowance is ten of
	// those datagrams.
	pathAllowance = 10 * 1200
	// copiesLeave is the part of an address's allowance that copies of packets must leave for
	// the PATH_CHALLENGEs that prove the address.
	copiesLeave = pathAllowance / 2
	// mostCopied limits the bytes of copies for a client until it has proven another address.
	// Each byte received from where the copies go allows three more.
	//
	// So a client that forges many addresses has no more sent to all of them together, and a
	// client that moves four times in a row gets its copies.
	mostCopied = 4 * (pathAllowance - copiesLeave)
	// joining is the number of bytes an address may be sent while a handshake from it
	// completes, before the address is known to be proven. They are for the confirmation of
	// the handshake, connection IDs and probes of the path's MTU.
	joining = 16 * 1200
	// newcomers is the number of handshakes from an address that may begin before any more
	// must prove the address by a Retry (RFC 9000, section 8.1.2). So a household spends no
	// round trip on a proof. An attacker who forges an address has joining bytes sent to it
	// four times at most.
	newcomers = 4
	// pathTime is the minimum time for which an address that sends nothing is remembered.
	pathTime = 10 * time.Second
	// mostPaths is the maximum number of addresses in newer and in older. An attacker may
	// fill them to have an address forgotten and its allowance renewed. That takes more bytes
	// than the allowance has.
	mostPaths = 4096
)

// A ConnID is a connection ID that a server has issued. It has quicconn.ConnectionIDBytes
// bytes.
type ConnID [17]byte

// Paths keeps a server within the limit of RFC 9000, section 8, when it sends to unproven
// addresses. Packets from such an address may be forged, and quic-go answers each
// PATH_CHALLENGE with a full packet, however small the received packet was. Packets received
// from such an address are never held back, because a client that has moved proves its new
// address by them.
//
// Paths also finds addresses to which clients may have moved. Packets from such an address
// carry a connection ID that was received from another address before. A NAT that gives a
// client another port does not tell the client, so the ID stays the same (RFC 9000, section
// 9.5).
type Paths struct {
	homes map[netip.AddrPort]*home // proven addresses, which are those of connections
	// Homes by their newest ID. If two homes have the same ID, this is the home it last
	// arrived from.
	byID  map[ConnID]*home
	conns map[uint64]netip.AddrPort // address of each connection, by number
	moved int                       // number of homes whose away is valid

	// Bytes that may still be sent to an address while a handshake from it completes.
	handshakes map[netip.AddrPort]int

	// Unproven addresses, by their prefixOf. older holds those of the previous period.
	newer, older map[netip.Prefix]unproven
	turned       time.Time // when newer was started
}

// home is a proven address and what is known about its client.
type home struct {
	id    ConnID         // newest ID in packets from the address; valid if known
	known bool           // a packet arrived from the address after it was proven
	away  netip.AddrPort // source of later packets with that ID; not valid if there were none

	// Bytes of copies, less three times the bytes received from away, but at least 0. Limited by
	// mostCopied.
	copied int
}

// arrival is a client, by its newest ID, and the proven address to which it has moved.
type arrival struct {
	at *home
	id ConnID
}

// unproven is the state of an unproven address.
type unproven struct {
	left  int // bytes that may still be sent there
	begun int // handshakes begun without a proof
}

// NewPaths returns the Paths of a server without connections.
func NewPaths() *Paths {
	return &Paths{
		homes: make(map[netip.AddrPort]*home), byID: make(map[ConnID]*home),
		handshakes: make(map[netip.AddrPort]int),
		newer:      make(map[netip.Prefix]unproven),
	}
}

// Prove adds an address of a connection. Everything may be sent to it from now on.
func (p *Paths) Prove(at netip.AddrPort) {
	if !p.Knows(at) {
		p.settle(prefixOf(at.Addr()))
		p.homes[at] = new(home)
	}
}

// Renew sets the addresses of all connections, by their numbers, and removes other addresses.
// What is known about a client moves with its connection, because the client's packets may
// arrive from elsewhere by the time its new address is proven.
func (p *Paths) Renew(remotes iter.Seq2[uint64, netip.AddrPort]) {
	homes := make(map[netip.AddrPort]*home, len(p.homes))
	conns := make(map[uint64]netip.AddrPort, len(p.conns))
	var came []arrival // applied at the end, because a client may be where another one was
	for conn, at := range remotes {
		p.Prove(at)
		homes[at] = p.homes[at]
		conns[conn] = at
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
	p.homes = homes
	p.conns = conns
}

// identify records the ID of the client at a proven address.
func (p *Paths) identify(h *home, id ConnID) {
	p.forget(h)
	h.id = id
	h.known = true
	p.byID[id] = h
}

// forget removes what is known about the client at an address.
func (p *Paths) forget(h *home) {
	if p.byID[h.id] == h {
		delete(p.byID, h.id)
	}
	h.known = false
	p.moves(h, netip.AddrPort{})
}

// moves records where the client of a proven address may be. An invalid address means that it
// has not moved.
func (p *Paths) moves(h *home, to netip.AddrPort) {
	if h.away.IsValid() {
		p.moved--
	}
	h.away = to
	if to.IsValid() {
		p.moved++
	}
}

// settle restores the allowance of an address because a client has just proven that it
// receives there. Without this, a client that moves back and forth would use up the allowance
// after ten moves. A client that stays does not restore it.
func (p *Paths) settle(address netip.Prefix) {
	for _, m := range [...]map[netip.Prefix]unproven{p.newer, p.older} {
		if u, ok := m[address]; ok {
			u.left = pathAllowance
			m[address] = u
		}
	}
}

// MustProve reports whether a client must prove its address before its handshake begins.
// Otherwise an attacker who forges the address could have data sent to it with each
// handshake.
func (p *Paths) MustProve(from netip.AddrPort) bool {
	return p.from(prefixOf(from.Addr())).begun >= newcomers
}

// Begin allows the first packets to a client, which are sent before the server has noticed
// the end of the client's handshake. Without this, the clients of a crowd with one address
// would wait for each other. proven says whether the client has shown a token that it
// received at that address.
func (p *Paths) Begin(from netip.AddrPort, proven bool, now time.Time) {
	if address := prefixOf(from.Addr()); address.IsValid() && !proven {
		p.turn(now)
		u := p.from(address)
		u.begun++
		p.newer[address] = u
	}
	p.handshakes[from] = joining
}

// End is called when a connection is proven or has ended. It removes what Begin has allowed.
func (p *Paths) End(from netip.AddrPort) { delete(p.handshakes, from) }

// Proven returns the number of proven addresses.
func (p *Paths) Proven() int { return len(p.homes) }

// Knows reports whether an address is proven.
func (p *Paths) Knows(at netip.AddrPort) bool { return p.homes[at] != nil }

// Stays reports whether a packet of a connection came from a proven address and packets with
// the same ID have arrived from there before. If so, the client is there, and Came need not
// be called.
func (p *Paths) Stays(from netip.AddrPort, id ConnID) bool {
	h := p.homes[from]
	if h == nil || !h.known || h.id != id {
		return false
	}
	p.moves(h, netip.AddrPort{})
	return true
}

// Came records a packet of a connection. Three times its size may then be sent to its source.
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

// Moving reports whether some client may have moved. Only then is Copy of use.
func (p *Paths) Moving() bool { return p.moved > 0 }

// Copy returns the address to which size bytes for to must also be sent. That is where the
// client of to may have moved, if enough bytes remain to prove that address and mostCopied
// allows the copy.
//
// QUIC proves a new address with a connection ID from the client and asks for more IDs at the
// old address. Without copies, a client that has moved a few times within a second would
// never receive that request. It would be cut off until IdleTimeout.
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

// MaySend reports whether size bytes may be sent to an address. It subtracts them from what
// is left.
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

// turn removes the addresses from which nothing was received for pathTime, or sooner if there
// are mostPaths.
func (p *Paths) turn(now time.Time) {
	if now.Sub(p.turned) < pathTime && len(p.newer) < mostPaths {
		return
	}
	p.older = p.newer
	p.newer = make(map[netip.Prefix]unproven)
	p.turned = now
}
