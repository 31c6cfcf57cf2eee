package door

import (
	"iter"
	"net/netip"
	"time"
)

const (
	// amplification is how many times what came from an address may be sent there before it is proven (RFC 9000, section 8).
	amplification = 3
	// pathAllowance is what an address may be sent beyond that. A client whose address has changed does not know it, and its packets are
	// small, while each PATH_CHALLENGE fills a datagram (RFC 9000, section 8.2.1). It is ten of them.
	pathAllowance = 10 * 1200
	// copiesLeave is what copies of packets leave of an address's allowance, for the PATH_CHALLENGEs that are to prove it.
	copiesLeave = pathAllowance / 2
	// mostCopied is how many bytes of copies an address may have made in all, beyond three times what came from where they go, until its client
	// has proven another. A client that forges many addresses has no more sent to all of them; one that moves four times in a row has its copies.
	mostCopied = 4 * (pathAllowance - copiesLeave)
	// joining is how many bytes an address may be sent while a handshake from there ends, before it is known to be proven: what says that
	// it is over, connection ids, and probes of the path's MTU.
	joining = 16 * 1200
	// newcomers is how many handshakes of an address may begin before the next ones must prove it by a Retry (RFC 9000, section 8.1.2). So a
	// household pays no round trip for proof, and an attacker who forges an address has joining bytes sent there four times at most.
	newcomers = 4
	// pathTime is for how long an address from which nothing comes is remembered, at least.
	pathTime = 10 * time.Second
	// mostPaths is how many addresses each of newer and older holds at most. An attacker who fills them, to have one forgotten and its
	// allowance renewed, must send more bytes than the allowance has.
	mostPaths = 4096
)

// ConnID is a connection id that a server has given out, of quicconn.ConnectionIDBytes.
type ConnID [17]byte

// Paths holds a server to the limit of RFC 9000, section 8, where it sends to addresses that nobody has proven: whose packets come from
// there may have forged them. quic-go answers each PATH_CHALLENGE by a full packet, however small the one was in which it came. What comes
// from such an address is never held back: a client that has moved proves the new one by it.
//
// Paths also knows where clients have perhaps moved to: whose packets have the connection id that came from another address before. A NAT
// that gives a client another port does not tell it, so the id stays (RFC 9000, section 9.5).
type Paths struct {
	homes map[netip.AddrPort]*home  // the proven addresses: those of connections
	byID  map[ConnID]*home          // by the newest id of each; of two with one id the one from which that came last
	conns map[uint64]netip.AddrPort // where connections are, by their numbers
	moved int                       // homes whose clients have perhaps moved away

	handshakes   map[netip.AddrPort]int    // bytes that may still be sent there, by the address of the handshake
	newer, older map[netip.Prefix]unproven // by address, as AddressOf has it
	turned       time.Time                 // when newer was begun
}

// home is a proven address, and what is known of the client there.
type home struct {
	id     ConnID         // the newest of packets from there, if known
	known  bool           // a packet has come from there since the address was proven
	away   netip.AddrPort // from where packets with that id have come since; not valid = from nowhere else
	copied int            // bytes of copies for it beyond three times what came from away, whatever comes from there meanwhile
}

// arrival is a client with its newest id at a proven address that it has moved to.
type arrival struct {
	at *home
	id ConnID
}

// unproven is what has come from an address without a proof.
type unproven struct {
	left  int // bytes that may still be sent there
	begun int // handshakes
}

// NewPaths returns Paths of a server without connections.
func NewPaths() *Paths {
	return &Paths{
		homes: make(map[netip.AddrPort]*home), byID: make(map[ConnID]*home),
		handshakes: make(map[netip.AddrPort]int),
		newer:      make(map[netip.Prefix]unproven),
	}
}

// Prove notes an address of a connection, to which all may be sent from now on.
func (p *Paths) Prove(at netip.AddrPort) {
	if !p.Knows(at) {
		p.settle(prefixOf(at.Addr()))
		p.homes[at] = new(home)
	}
}

// Renew notes where all connections are, by their numbers, and forgets the other addresses. What is known of an address goes with the
// connection that has left it: its packets may come from elsewhere already when it is proven.
func (p *Paths) Renew(remotes iter.Seq2[uint64, netip.AddrPort]) {
	homes, conns := make(map[netip.AddrPort]*home, len(p.homes)), make(map[uint64]netip.AddrPort, len(p.conns))
	var came []arrival // noted when all have left, for one may be where another was
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

// identify notes the id of the client at a proven address.
func (p *Paths) identify(h *home, id ConnID) {
	p.forget(h)
	h.id, h.known, p.byID[id] = id, true, h
}

// forget forgets who is at an address.
func (p *Paths) forget(h *home) {
	if p.byID[h.id] == h {
		delete(p.byID, h.id)
	}
	h.known = false
	p.moves(h, netip.AddrPort{})
}

// moves notes where the client of a proven address is perhaps; not valid = there.
func (p *Paths) moves(h *home, to netip.AddrPort) {
	if h.away.IsValid() {
		p.moved--
	}
	if h.away = to; to.IsValid() {
		p.moved++
	}
}

// settle gives an address its allowance back, for somebody has just shown that he receives there. Otherwise a client that moves back and
// forth would have used it up after ten times. Whoever stays there does not renew it.
func (p *Paths) settle(address netip.Prefix) {
	for _, m := range [...]map[netip.Prefix]unproven{p.newer, p.older} {
		if u, ok := m[address]; ok {
			u.left = pathAllowance
			m[address] = u
		}
	}
}

// MustProve reports whether a client must prove its address before its handshake begins. Else who forges it would have as much sent there as
// he begins handshakes.
func (p *Paths) MustProve(from netip.AddrPort) bool {
	return p.from(prefixOf(from.Addr())).begun >= newcomers
}

// Begin notes a handshake, whose client is sent its first packets before the server has noticed that the handshake is over. Without that a
// crowd behind one address would wait for each other. proven: by a token, which the client was sent there.
func (p *Paths) Begin(from netip.AddrPort, proven bool, now time.Time) {
	if address := prefixOf(from.Addr()); address.IsValid() && !proven {
		p.turn(now)
		u := p.from(address)
		u.begun++
		p.newer[address] = u
	}
	p.handshakes[from] = joining
}

// End forgets a handshake, whose connection is proven or has ended.
func (p *Paths) End(from netip.AddrPort) { delete(p.handshakes, from) }

// Proven returns how many addresses are known to be proven.
func (p *Paths) Proven() int { return len(p.homes) }

// Knows reports whether an address was proven.
func (p *Paths) Knows(at netip.AddrPort) bool { return p.homes[at] != nil }

// Stays notes a packet of a connection, and reports whether it came from a proven address, from which others with its id have come. Then
// there is nothing else to note.
func (p *Paths) Stays(from netip.AddrPort, id ConnID) bool {
	h := p.homes[from]
	if h == nil || !h.known || h.id != id {
		return false
	}
	p.moves(h, netip.AddrPort{})
	return true
}

// Came notes a packet of a connection, so that three times its size may be sent to where it came from.
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

// Moving reports whether a client has perhaps moved, so that Copy has something to say.
func (p *Paths) Moving() bool { return p.moved > 0 }

// Copy reports where that many bytes for an address are to be sent, too: where its client has perhaps moved to, as far as that leaves enough
// to prove it, and mostCopied allows. QUIC proves a new address with a connection id that the client has given it, and asks for more at the
// old one. Without copies a client that has moved a few times within a second would never hear that, and be dead until IdleTimeout.
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

// MaySend reports whether that many bytes may be sent to an address, and takes them off what is left.
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

// from returns what has come from an address.
func (p *Paths) from(address netip.Prefix) unproven {
	if u, ok := p.newer[address]; ok {
		return u
	}
	if u, ok := p.older[address]; ok {
		return u
	}
	return unproven{left: pathAllowance}
}

// turn forgets the addresses from which nothing has come for pathTime, or sooner when there are mostPaths.
func (p *Paths) turn(now time.Time) {
	if now.Sub(p.turned) < pathTime && len(p.newer) < mostPaths {
		return
	}
	p.older, p.newer, p.turned = p.newer, make(map[netip.Prefix]unproven), now
}
