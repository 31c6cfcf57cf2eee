package rpc

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// forgedTime is how long a handshake that failed before the client had proven its address keeps its place, at least. An
// Initial is sealed with keys that everybody knows, so a forged CONNECTION_CLOSE would give the place back at once, and each
// Initial costs a signature: at most Config.RetryAbove of them a second.
const forgedTime = time.Second

// door knows who is on the way in and who is inside, by address. What a client's address is worth is known only once the
// client has proven it, by a Retry or by finishing QUIC's handshake: until then nothing counts against the address, or
// whoever forges it would lock its owner out. It is pure; World.mu guards it.
type door struct {
	handshakes  int // Config.MaxHandshakes
	ofAddress   int // Config.MaxHandshakesPerAddress
	connections int // Config.MaxConnsPerAddress
	retryAbove  int // Config.RetryAbove

	visits    []*visit // places taken; whose client has been waited for longest comes first
	addresses map[netip.Prefix]presence
}

// presence is what one address has; the door forgets an address that has nothing.
type presence struct {
	handshakes int // places whose client has proven the address
	inside     int // joined
}

// visit is a client's place among the handshakes: from its first packet until it has joined or failed, and until
// Authenticate has answered.
type visit struct {
	from   netip.Prefix // not valid: without limits of an address
	proven bool         // the client has shown that it receives at from
	since  time.Time
	conn   *Conn // waits for the client: may have to make room; else nil
	asking bool  // Authenticate runs
	left   bool  // joined or failed; the place is kept while asking, or for forgedTime
	placed bool  // it is among the visits

	welcomed bool // the client may join
}

// room is what somebody has to make room for.
type room uint8

const (
	// amongHandshakes, whoever is waited for makes room.
	amongHandshakes room = iota
	// amongConnections, only who is not welcome does. Who is could as well have said Join and stayed; and while the Join is
	// under way, that end is connected already.
	amongConnections
)

// yields reports whether the visit may have to make room.
func (v *visit) yields(r room) bool { return v.conn != nil && !(v.welcomed && r == amongConnections) }

func newDoor(c *Config) *door {
	return &door{
		handshakes:  c.maxHandshakes(),
		ofAddress:   c.MaxHandshakesPerAddress,
		connections: c.maxConnsPerAddress(),
		retryAbove:  c.retryAbove(),
		addresses:   make(map[netip.Prefix]presence),
	}
}

// addressOf returns what the limits of an address count by: an IPv4 address, or the /64 that one holder of IPv6 has; not
// valid for what is no IP address.
func addressOf(addr net.Addr) netip.Prefix {
	if addr == nil {
		return netip.Prefix{}
	}
	var ip netip.Addr
	if udp, ok := addr.(*net.UDPAddr); ok {
		ip = udp.AddrPort().Addr()
	} else if port, err := netip.ParseAddrPort(addr.String()); err == nil {
		ip = port.Addr()
	}
	ip = ip.Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// crowded reports whether a client must prove its address before it gets a place.
func (d *door) crowded(now time.Time) bool {
	d.sweep(now)
	return len(d.visits) >= d.retryAbove
}

// begin gives a new handshake a place. out, when not nil, has to make room: its place is gone. full says which limit is
// reached, when none can.
func (d *door) begin(from netip.Prefix, proven bool, now time.Time) (v *visit, out *Conn, full *CloseError) {
	d.sweep(now)
	if proven {
		out, full = d.fit(from)
	}
	if full == nil && out == nil && len(d.visits) >= d.handshakes {
		reason := fmt.Sprintf("%d handshakes at once, the limit is Config.MaxHandshakes", len(d.visits))
		out, full = d.makeRoom(amongHandshakes, proven, reason)
	}
	if full != nil {
		return nil, nil, full
	}
	v = &visit{from: from, proven: proven, since: now}
	d.place(v)
	return v, out, nil
}

// makeRoom evicts from the address that has most handshakes, for a client that has proven its own.
func (d *door) makeRoom(r room, proven bool, reason string) (out *Conn, full *CloseError) {
	if !proven {
		return nil, &CloseError{Code: ServerFull, Reason: reason}
	}
	return d.evict(r, d.busiest(r), reason)
}

// prove notes that the client finished QUIC's handshake from the address, so that the place counts there from now on.
func (d *door) prove(v *visit) (out *Conn, full *CloseError) {
	if v.proven {
		return nil, nil
	}
	if out, full = d.fit(v.from); full != nil {
		return nil, full
	}
	v.proven = true
	if v.placed {
		d.count(v.from, 1, 0)
	}
	return out, nil
}

// fit makes sure that an address may have one handshake more.
func (d *door) fit(from netip.Prefix) (out *Conn, full *CloseError) {
	if !from.IsValid() {
		return nil, nil
	}
	has := d.addresses[from]
	if d.connections >= 0 && has.handshakes+has.inside >= d.connections {
		return d.evict(amongConnections, from, fmt.Sprintf("%d connections from %v, the limit is Config.MaxConnsPerAddress", has.handshakes+has.inside, from))
	}
	if limit := d.share(); d.ofAddress >= 0 && has.handshakes >= limit {
		return d.evict(amongHandshakes, from, fmt.Sprintf("%d handshakes at once from %v, the limit is %d of Config.MaxHandshakesPerAddress and MaxHandshakes", has.handshakes, from, limit))
	}
	return nil, nil
}

// share returns how many handshakes one address may have now: Config.MaxHandshakesPerAddress, and never more than are still
// free. So one address alone gets half of them, two get a third each, and there is always room for one that comes new.
func (d *door) share() int {
	free := max(1, d.handshakes-len(d.visits))
	if d.ofAddress > 0 {
		return min(free, d.ofAddress)
	}
	return free
}

// evict takes the place of the handshake of an address that has waited longest for its client. An honest client says Hello and
// Login with the last packet of QUIC's handshake, and Join a round trip after the Welcome, so it is hardly ever waited for.
func (d *door) evict(r room, from netip.Prefix, reason string) (out *Conn, full *CloseError) {
	for _, v := range d.visits {
		if v.yields(r) && v.from == from {
			out = v.conn
			d.leave(v)
			return out, nil
		}
	}
	return nil, &CloseError{Code: ServerFull, Reason: reason}
}

// busiest returns the address that has most handshakes, among those that have one to evict; the oldest of equals.
func (d *door) busiest(r room) (from netip.Prefix) {
	most := -1
	for _, v := range d.visits {
		if has := d.addresses[v.from].handshakes; v.yields(r) && has > most {
			from, most = v.from, has
		}
	}
	return from
}

// await notes that the client was answered, welcomed or refused: it is waited for again, as the last in the line.
func (d *door) await(v *visit, c *Conn, welcomed bool) {
	if v.left {
		return
	}
	v.conn, v.welcomed = c, welcomed
	i := slices.Index(d.visits, v)
	d.visits = append(slices.Delete(d.visits, i, i+1), v)
}

// leave ends a visit; again is nothing. Its place is free now, or as soon as forgedTime and Authenticate allow.
func (d *door) leave(v *visit) {
	v.left, v.conn = true, nil
	if v.proven && !v.asking {
		d.release(v)
	}
}

// asking returns about how many logins of an address Authenticate runs.
func (d *door) asking(from netip.Prefix) (n int) {
	for _, v := range d.visits {
		if v.asking && v.from == from {
			n++
		}
	}
	return n
}

// answered notes that Authenticate has returned.
func (d *door) answered(v *visit) {
	v.asking = false
	if v.left && v.proven {
		d.release(v)
	}
}

// join ends a visit whose client is inside from now on.
func (d *door) join(v *visit) {
	d.leave(v)
	d.count(v.from, 0, 1)
}

// quit notes that who had joined from the address is gone.
func (d *door) quit(from netip.Prefix) { d.count(from, 0, -1) }

// sweep frees the places of handshakes that failed before anything was proven, once forgedTime has passed.
func (d *door) sweep(now time.Time) {
	d.visits = slices.DeleteFunc(d.visits, func(v *visit) bool {
		gone := v.left && !v.proven && !v.asking && now.Sub(v.since) >= forgedTime
		if gone {
			v.placed = false
		}
		return gone
	})
}

func (d *door) place(v *visit) {
	v.placed = true
	d.visits = append(d.visits, v)
	if v.proven {
		d.count(v.from, 1, 0)
	}
}

func (d *door) release(v *visit) {
	if !v.placed {
		return
	}
	v.placed = false
	i := slices.Index(d.visits, v)
	d.visits = slices.Delete(d.visits, i, i+1)
	d.count(v.from, -1, 0)
}

func (d *door) count(from netip.Prefix, handshakes, inside int) {
	has := d.addresses[from]
	has.handshakes += handshakes
	has.inside += inside
	if has == (presence{}) {
		delete(d.addresses, from)
		return
	}
	d.addresses[from] = has
}
