package door

import (
	"net/netip"
	"time"
)

const (
	// pathAnswer is how many bytes QUIC may answer to a packet from a new path: a PATH_CHALLENGE or PATH_RESPONSE fills a datagram (RFC 9000,
	// sections 8.2.1 and 8.2.2).
	pathAnswer = 1200
	// amplification is how many times what came from an address may be sent there before it is proven (RFC 9000, section 8).
	amplification = 3
	// pathAllowance is what an address may be sent beyond that: a client whose address has changed does not know it, and its packets are
	// small.
	pathAllowance = 10 * pathAnswer
	// joining is how many packets of a connection QUIC gets while its handshake ends: the login, acks, and probes of the path's MTU.
	joining = 16
	// newcomers is how many handshakes of an address may begin before the next ones must prove it by a Retry (RFC 9000, section 8.1.2). A
	// household pays no round trip for that, and who forges an address has joining packets from there so many times.
	newcomers = 4
	// pathTime is for how long an address from which nothing comes is remembered, at least.
	pathTime = 10 * time.Second
	// mostPaths is how many addresses each of newer and older holds at most. An attacker who fills them, to have one forgotten and its
	// allowance renewed, must send more bytes than the allowance has.
	mostPaths = 4096
)

// Paths holds a server to the limit of RFC 9000, section 8, where packets of established connections come from addresses that nobody has
// proven: a client may forge them. quic-go answers each PATH_CHALLENGE there by a full packet, however small the one was in which it came.
type Paths struct {
	proven       map[netip.AddrPort]struct{} // addresses of connections
	handshakes   map[netip.AddrPort]int      // packets that still pass, by the address of the handshake
	newer, older map[netip.Prefix]unproven   // by address, as AddressOf has it
	turned       time.Time                   // when newer was begun
}

// unproven is what has come from an address without a proof.
type unproven struct {
	left  int // bytes that may still be answered there
	begun int // handshakes
}

// Prove notes an address of a connection. Nothing from there is held back until Forget.
func (p *Paths) Prove(from netip.AddrPort) {
	if p.proven == nil {
		p.proven = make(map[netip.AddrPort]struct{})
	}
	p.proven[from] = struct{}{}
}

// MustProve reports whether a client must prove its address before its handshake begins. Else who forges it would have as many packets pass
// from there as he begins handshakes.
func (p *Paths) MustProve(from netip.AddrPort) bool {
	return p.from(prefixOf(from.Addr())).begun >= newcomers
}

// Begin notes a handshake, whose client may send its first packets before the server has noticed that the handshake is over. Without that a
// crowd behind one address would wait for each other. proven: by a token, which the client was sent there.
func (p *Paths) Begin(from netip.AddrPort, proven bool, now time.Time) {
	if address := prefixOf(from.Addr()); address.IsValid() && !proven {
		p.turn(now)
		u := p.from(address)
		u.begun++
		p.newer[address] = u
	}
	if p.handshakes == nil {
		p.handshakes = make(map[netip.AddrPort]int)
	}
	p.handshakes[from] = joining
}

// End forgets a handshake, whose connection is proven or has ended.
func (p *Paths) End(from netip.AddrPort) { delete(p.handshakes, from) }

// Proven returns how many addresses were proven since Forget.
func (p *Paths) Proven() int { return len(p.proven) }

// Forget forgets the addresses that were proven.
func (p *Paths) Forget() { clear(p.proven) }

// Knows reports whether an address was proven.
func (p *Paths) Knows(from netip.AddrPort) bool {
	_, ok := p.proven[from]
	return ok
}

// Admit reports whether QUIC may have a packet of that size, for its answer is within the limit.
func (p *Paths) Admit(from netip.AddrPort, size int, now time.Time) bool {
	address := prefixOf(from.Addr())
	if p.Knows(from) || !address.IsValid() {
		return true
	}
	if left := p.handshakes[from]; left > 0 {
		p.handshakes[from] = left - 1
		return true
	}
	p.turn(now)
	u := p.from(address)
	u.left = min(u.left+amplification*size, pathAllowance)
	admitted := u.left >= pathAnswer
	if admitted {
		u.left -= pathAnswer
	}
	p.newer[address] = u
	return admitted
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
	if p.newer != nil && now.Sub(p.turned) < pathTime && len(p.newer) < mostPaths {
		return
	}
	p.older, p.newer, p.turned = p.newer, make(map[netip.Prefix]unproven), now
}
