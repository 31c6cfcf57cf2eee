// Package door decides which clients may enter: which of them get a place for their handshake,
// which must prove their address or make room for others, and which have to pause because they
// have guessed tokens. It has no clock and no goroutine, and only its keys are random. It is
// guarded by the world's lock.
package door

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// forgedTime is the minimum time that a handshake keeps its place if it fails before the client
// has proven its address.
//
// Anybody can forge a CONNECTION_CLOSE, since the keys of Initial packets are public (RFC 9001,
// section 5.2). If that freed the place at once, the next Initial could take it, and each Initial
// costs the server a signature. With forgedTime, there are at most rpc.Config.RetryAbove
// signatures per second.
const forgedTime = time.Second

// Limits holds the settings of a [Door].
type Limits struct {
	Handshakes  int // rpc.Config.MaxHandshakes
	OfAddress   int // rpc.Config.MaxHandshakesPerAddress
	Connections int // rpc.Config.MaxConnsPerAddress
	RetryAbove  int // rpc.Config.RetryAbove
	Total       int // rpc.Config.MaxConns
}

// Counts counts what happened to clients. The game sees it as rpc.HandshakeStats.
type Counts struct {
	Begun, Retries, Refused, Evicted, Failed uint64
	LoginsFailed, LoginsSlowed               uint64
}

// Full says why there is no place for a client, which is therefore refused.
type Full struct {
	Reason string // names the limit
	Busy   bool   // the places are taken by other handshakes, so there may soon be room
}

// fullFor returns the Full for a client if nobody can be evicted to make room for r.
func fullFor(r Room, reason string) *Full { return &Full{Reason: reason, Busy: r == AmongHandshakes} }

// A Door knows, for each address, which clients are in their handshake and which have joined. It
// also counts the world's connections, from their admission until the world has removed them. C is
// the type of a connection.
//
// Nothing counts against an address until the client has proven that it receives there, either by
// a Retry or by completing QUIC's handshake (RFC 9000, section 8.1). Otherwise anybody could lock
// out the address's owner by forging the address.
type Door[C any] struct {
	Limits
	Failures *Failures
	Claims   *Claims[C]
	Counts   Counts

	visits    []*Visit[C] // the places taken; clients we have waited for longest come first
	addresses map[netip.Prefix]presence
	conns     int
}

// A presence holds the number of clients at an address. Addresses without clients have no entry.
type presence struct {
	handshakes int // clients in their handshake that have proven the address
	inside     int // clients that have joined
}

// A Visit is a client's place among the handshakes. It begins with the client's first packet, and
// ends when the client has joined or failed. If Authenticate is running for the client, the visit
// lasts until Authenticate has returned.
type Visit[C any] struct {
	from   netip.Prefix // invalid if limits per address don't apply
	proven bool         // the client has shown that it receives at from
	since  time.Time    // when the visit began

	// The connection to close if the client has to make room. It's nil while the client is waiting
	// for us, because then it needn't make room.
	conn *C

	asking bool // Authenticate is running
	left   bool // the client has joined or failed, but may keep its place for a while

	welcomed bool // the client may join
}

// Room is the kind of place for which a visit may have to make room.
type Room uint8

const (
	// AmongHandshakes is a place among the handshakes. Any client that we are waiting for may
	// have to make room.
	AmongHandshakes Room = iota
	// AmongConnections is a place among the connections. A client that we have welcomed keeps its
	// place, since it may have sent its Join already and think that it is connected.
	AmongConnections
)

// From returns the client's address, which is invalid if limits per address don't apply.
func (v *Visit[C]) From() netip.Prefix { return v.from }

// Left reports whether the client has joined or failed.
func (v *Visit[C]) Left() bool { return v.left }

// WaitFor is called when the server begins to wait for the client. If the client then has to make
// room, c is closed. WaitFor is called with nil when the client begins to wait for the server.
func (v *Visit[C]) WaitFor(c *C) { v.conn = c }

// mayYield reports whether the client may have to make room for r.
func (v *Visit[C]) mayYield(r Room) bool {
	return v.conn != nil && !(v.welcomed && r == AmongConnections)
}

// New returns the Door of a world without connections.
func New[C any](limits Limits, f *Failures, c *Claims[C]) *Door[C] {
	return &Door[C]{Limits: limits, Failures: f, Claims: c, addresses: make(map[netip.Prefix]presence)}
}

// Conns returns the number of connections.
func (d *Door[C]) Conns() int { return d.conns }

// Open returns the number of places that are taken.
func (d *Door[C]) Open(now time.Time) int {
	d.sweep(now)
	return len(d.visits)
}

// DecideRetry decides whether a client that hasn't proven its address gets a Retry, and counts it.
// It also returns the number of clients in their handshake. If suspect is set, the client always
// gets a Retry (see [Paths.MustProve]).
func (d *Door[C]) DecideRetry(suspect bool, now time.Time) (must bool, open int) {
	open = d.Open(now)
	must = suspect || open >= d.RetryAbove
	if must {
		d.Counts.Retries++
	}
	return must, open
}

// Arrive gives a client a place among the handshakes when its first packet arrives. If another
// client loses its place, out is the connection that the caller must close. If there's no
// place, full says why.
func (d *Door[C]) Arrive(from netip.Prefix, proven bool, now time.Time) (v *Visit[C], out *C, full *Full) {
	v, out, full = d.place(from, proven, now)
	d.updateCounts(v != nil, out, full)
	return v, out, full
}

// Admit admits a connection and begins to count it. v is the place that the client got when it
// arrived. If v is nil, the client comes over a carrier without places, and gets one now. Admit
// calls enter last, to create whatever else the connection needs.
//
// The caller must close out unless it's nil, even if the connection itself is refused. If the
// connection is refused, the visit has ended.
func (d *Door[C]) Admit(v *Visit[C], from netip.Prefix, now time.Time, enter func() *Full) (
	_ *Visit[C], out *C, full *Full,
) {
	arrived := v != nil
	if arrived {
		out, full = d.prove(v)
	} else {
		v, out, full = d.place(from, true, now)
	}
	if full == nil && out == nil && d.conns >= d.Total {
		reason := fmt.Sprintf("as many connections as Config.MaxConns allows, %d", d.conns)
		out, full = d.evict(AmongConnections, netip.Prefix{}, reason)
	}
	if full == nil {
		full = enter()
	}
	d.updateCounts(!arrived && full == nil, out, full)
	if full == nil {
		d.conns++
	} else if v != nil {
		d.Leave(v)
	}
	return v, out, full
}

// updateCounts updates Counts with the result for a client.
func (d *Door[C]) updateCounts(begun bool, out *C, full *Full) {
	if begun {
		d.Counts.Begun++
	}
	if out != nil {
		d.Counts.Evicted++
	}
	if full != nil {
		d.Counts.Refused++
	}
}

// place is Arrive without the Counts.
func (d *Door[C]) place(from netip.Prefix, proven bool, now time.Time) (v *Visit[C], out *C, full *Full) {
	d.sweep(now)
	if proven {
		out, full = d.makeRoom(from)
	}
	if full == nil && out == nil && len(d.visits) >= d.Handshakes {
		reason := fmt.Sprintf("as many handshakes at once as Config.MaxHandshakes allows, %d", len(d.visits))
		full = fullFor(AmongHandshakes, reason)
		if proven {
			// A client that has proven its address may take anybody's place. A client with a
			// forged address may not.
			out, full = d.evict(AmongHandshakes, netip.Prefix{}, reason)
		}
	}
	if full != nil {
		return nil, nil, full
	}
	v = &Visit[C]{from: from, proven: proven, since: now}
	d.visits = append(d.visits, v)
	if proven {
		d.addPresence(from, 1, 0)
	}
	return v, out, nil
}

// prove is called when a client has completed QUIC's handshake, and so has proven its address.
// From now on, its place counts for the address.
func (d *Door[C]) prove(v *Visit[C]) (out *C, full *Full) {
	if v.proven {
		return nil, nil
	}
	out, full = d.makeRoom(v.from)
	if full != nil {
		return nil, full
	}
	v.proven = true
	if slices.Contains(d.visits, v) {
		// If the client has failed in the meantime, sweep has freed its place.
		d.addPresence(v.from, 1, 0)
	}
	return out, nil
}

// makeRoom makes sure that an address may have another handshake. If necessary, it evicts one of
// the address's clients.
func (d *Door[C]) makeRoom(from netip.Prefix) (out *C, full *Full) {
	if !from.IsValid() {
		return nil, nil
	}
	has := d.addresses[from]
	if d.Connections >= 0 && has.handshakes+has.inside >= d.Connections {
		reason := fmt.Sprintf("as many connections from %v as Config.MaxConnsPerAddress allows, %d",
			from, has.handshakes+has.inside)
		return d.evict(AmongConnections, from, reason)
	}
	if limit := d.shareOfAddress(); d.OfAddress >= 0 && has.handshakes >= limit {
		reason := fmt.Sprintf(
			"as many handshakes at once from %v as Config.MaxHandshakesPerAddress and MaxHandshakes allow, %d",
			from, limit)
		return d.evict(AmongHandshakes, from, reason)
	}
	return nil, nil
}

// shareOfAddress returns the number of handshakes that a single address may have now. That's the
// configured number, but never more than the number of free places. So a single address gets half
// of all places, and two addresses get a third each. There's always room for another address.
func (d *Door[C]) shareOfAddress() int {
	free := max(1, d.Handshakes-len(d.visits))
	if d.OfAddress > 0 {
		return min(free, d.OfAddress)
	}
	return free
}

// evict makes a client at the given address give up its place. If the address is invalid, the
// client may be at any address.
//
// We pick a client from the address with the most handshakes, preferably one that we haven't
// welcomed. Among several, we pick the client that we have been waiting for longest. That's
// hardly ever an honest client, because we don't have to wait long for honest clients: they
// send Hello and Login along with the last packet of QUIC's handshake, and Join a round trip
// after the Welcome.
func (d *Door[C]) evict(r Room, from netip.Prefix, reason string) (out *C, full *Full) {
	var first *Visit[C]
	for _, v := range d.visits {
		if v.mayYield(r) && (!from.IsValid() || v.from == from) && (first == nil || d.goesBefore(v, first)) {
			first = v
		}
	}
	if first == nil {
		return nil, fullFor(r, reason)
	}
	out = first.conn
	d.Leave(first)
	return out, nil
}

// goesBefore reports whether v should make room rather than w, although we have waited longer for
// w.
func (d *Door[C]) goesBefore(v, w *Visit[C]) bool {
	n := d.addresses[v.from].handshakes
	m := d.addresses[w.from].handshakes
	if n != m {
		return n > m
	}
	return w.welcomed && !v.welcomed
}

// Await is called when the server has answered the client, perhaps with a Welcome, and waits for
// the client again. Since this wait has just begun, other clients make room before this one. c is
// the connection to close if this client has to make room.
func (d *Door[C]) Await(v *Visit[C], c *C, welcomed bool) {
	if v.left {
		return
	}
	v.conn = c
	v.welcomed = welcomed
	i := slices.Index(d.visits, v)
	d.visits = append(slices.Delete(d.visits, i, i+1), v)
}

// Leave ends a visit. Its place becomes free once Authenticate isn't running for it. If the
// address is unproven, the place also stays taken until forgedTime after the visit began. A second
// call is a no-op.
func (d *Door[C]) Leave(v *Visit[C]) {
	v.left = true
	v.conn = nil
	if v.proven && !v.asking {
		d.freePlace(v)
	}
}

// Ask asks to call Authenticate with a client's token. If the world may, it must call Authenticate
// and then [Door.Answered]. The client keeps its place until then, even if it leaves.
//
// Otherwise the world must refuse logins from that address for the duration of pause. If pause is
// 0, this login only has to wait until Authenticate has answered another one.
func (d *Door[C]) Ask(v *Visit[C], token []byte, now time.Time) (may bool, pause time.Duration) {
	may, pause = d.Failures.Ask(v.from, token, d.countAsking(v.from), now)
	switch {
	case may:
		v.asking = true
	case pause > 0:
		d.Counts.LoginsSlowed++
	}
	return may, pause
}

// countAsking returns the number of an address's logins for which Authenticate is running.
func (d *Door[C]) countAsking(from netip.Prefix) (n int) {
	for _, v := range d.visits {
		if v.asking && v.from == from {
			n++
		}
	}
	return n
}

// Answered is called when Authenticate has returned.
func (d *Door[C]) Answered(v *Visit[C]) {
	v.asking = false
	if v.left && v.proven {
		d.freePlace(v)
	}
}

// Refused is called when Authenticate has refused a client's token. It returns the number of
// failures that the client's address has now.
func (d *Door[C]) Refused(v *Visit[C], token []byte, now time.Time) (count int) {
	d.Counts.LoginsFailed++
	return d.Failures.Failed(v.from, token, now)
}

// Join ends the visit of a client that has joined.
func (d *Door[C]) Join(v *Visit[C]) {
	d.Leave(v)
	d.addPresence(v.from, 0, 1)
}

// Quit is called when a client that had joined from that address leaves.
func (d *Door[C]) Quit(from netip.Prefix) { d.addPresence(from, 0, -1) }

// End stops counting a connection. It is called when the world has removed a client that has Quit.
func (d *Door[C]) End() { d.conns-- }

// Fail ends the visit of a connection that ended before it joined, and stops counting the
// connection.
func (d *Door[C]) Fail(v *Visit[C]) {
	d.Leave(v)
	d.Counts.Failed++
	d.conns--
}

// TurnAway is called when a client arrives while the world is closed. It ends the client's visit,
// if it has one.
func (d *Door[C]) TurnAway(v *Visit[C]) {
	d.Counts.Refused++
	if v != nil {
		d.Leave(v)
	}
}

// sweep frees the places of clients that have failed without proving their address, unless they
// arrived less than forgedTime ago.
func (d *Door[C]) sweep(now time.Time) {
	d.visits = slices.DeleteFunc(d.visits, func(v *Visit[C]) bool {
		return v.left && !v.proven && !v.asking && now.Sub(v.since) >= forgedTime
	})
}

// freePlace frees the place of a client that has proven its address, unless the client no longer
// has one.
func (d *Door[C]) freePlace(v *Visit[C]) {
	if i := slices.Index(d.visits, v); i >= 0 {
		d.visits = slices.Delete(d.visits, i, i+1)
		d.addPresence(v.from, -1, 0)
	}
}

// addPresence adds to the number of clients at an address.
func (d *Door[C]) addPresence(from netip.Prefix, handshakes, inside int) {
	has := d.addresses[from]
	has.handshakes += handshakes
	has.inside += inside
	if has == (presence{}) {
		delete(d.addresses, from)
		return
	}
	d.addresses[from] = has
}
