// Package door decides which clients may enter. It decides which clients have a place while
// they handshake, which must prove their address or make room, and which must pause after
// guessing tokens. It uses no clock or goroutine; only its keys are random. The world's lock
// guards it.
package door

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// forgedTime is the minimum time for which a handshake keeps its place if it failed before
// the client had proven its address.
//
// The keys of Initial packets are public (RFC 9001, section 5.2). Without this time, a forged
// CONNECTION_CLOSE would free the place at once, and each Initial costs the server a
// signature. With it, there are at most rpc.Config.RetryAbove signatures per second.
const forgedTime = time.Second

// Limits are the limits of a [Door].
type Limits struct {
	Handshakes  int // rpc.Config.MaxHandshakes
	OfAddress   int // rpc.Config.MaxHandshakesPerAddress
	Connections int // rpc.Config.MaxConnsPerAddress
	RetryAbove  int // rpc.Config.RetryAbove
	Total       int // rpc.Config.MaxConns
}

// Counts counts clients that wanted to enter. The game sees the counts as rpc.HandshakeStats.
type Counts struct {
	Begun, Retries, Refused, Evicted, Failed uint64
	LoginsFailed, LoginsSlowed               uint64
}

// Full names the limit because of which a client is refused.
type Full struct {
	Reason string
	Busy   bool // other handshakes took the places, so there may be room soon
}

// noPlace returns the Full for an eviction that found no place to take.
func noPlace(r Room, reason string) *Full { return &Full{Reason: reason, Busy: r == AmongHandshakes} }

// A Door records by address which clients are in their handshake and which have joined. It
// also counts the world's connections, from their admission until the world has removed them.
// C is the connection type.
//
// A client proves its address by a Retry or by completing QUIC's handshake (RFC 9000, section
// 8.1). Until then, nothing counts against the address. So nobody can lock out its owner by
// forging the address.
type Door[C any] struct {
	Limits
	Failures *Failures
	Claims   *Claims[C]
	Counts   Counts

	visits    []*Visit[C] // places taken; the client the server has waited for longest is first
	addresses map[netip.Prefix]presence
	conns     int
}

// presence counts the clients of one address. It is zero for an address without clients.
type presence struct {
	handshakes int // places of clients that have proven the address
	inside     int // clients that have joined
}

// A Visit is a client's place among the handshakes. It begins with the client's first packet.
// It ends when the client has joined or failed and Authenticate has returned.
type Visit[C any] struct {
	from   netip.Prefix // not valid if limits per address do not apply
	proven bool         // the client has shown that it receives at from
	since  time.Time    // when the visit began

	// The connection on which the server waits for the client, which may have to make room. It
	// is nil while the server does not wait.
	conn *C

	asking bool // Authenticate is running
	// The client has joined or failed. It may keep the place while asking or for forgedTime.
	left bool

	welcomed bool // the client may join
}

// Room says why visits may have to make room.
type Room uint8

const (
	// AmongHandshakes: any client for which the server waits may have to make room.
	AmongHandshakes Room = iota
	// AmongConnections: only a client that was not welcomed may have to make room. A welcomed
	// client may have sent its Join already and then counts itself as connected.
	AmongConnections
)

// From returns the client's address. It is not valid if limits per address do not apply.
func (v *Visit[C]) From() netip.Prefix { return v.from }

// Left reports whether the client has joined or failed.
func (v *Visit[C]) Left() bool { return v.left }

// WaitFor records that the server now waits for the client on c, which may have to make room.
// If c is nil, the client waits for the server.
func (v *Visit[C]) WaitFor(c *C) { v.conn = c }

// yields reports whether the visit may have to make room for r.
func (v *Visit[C]) yields(r Room) bool {
	return v.conn != nil && !(v.welcomed && r == AmongConnections)
}

// New returns the Door of a world without connections.
func New[C any](limits Limits, f *Failures, c *Claims[C]) *Door[C] {
	return &Door[C]{Limits: limits, Failures: f, Claims: c, addresses: make(map[netip.Prefix]presence)}
}

// Conns returns the number of connections.
func (d *Door[C]) Conns() int { return d.conns }

// Open returns the number of places taken.
func (d *Door[C]) Open(now time.Time) int {
	d.sweep(now)
	return len(d.visits)
}

// MustProve reports whether a client that has not proven its address gets a Retry, and how
// many clients are in their handshake. If suspect is true, the client gets a Retry in any
// case (see [Paths.MustProve]).
func (d *Door[C]) MustProve(suspect bool, now time.Time) (must bool, open int) {
	open = d.Open(now)
	must = suspect || open >= d.RetryAbove
	if must {
		d.Counts.Retries++
	}
	return must, open
}

// Arrive gives a client whose first packet has arrived a place among the handshakes. If out
// is not nil, that connection lost its place to the client, and the caller must close it. If
// there is no place, full names the limit.
func (d *Door[C]) Arrive(from netip.Prefix, proven bool, now time.Time) (v *Visit[C], out *C, full *Full) {
	v, out, full = d.begin(from, proven, now)
	d.tally(v != nil, out, full)
	return v, out, full
}

// Admit admits and counts a connection. v is the place that the client got when it arrived,
// or nil if its carrier has none. Admit calls enter last to allocate everything else the
// connection needs.
//
// The caller must close out unless it is nil, even if the connection itself is refused. In
// that case, Admit has ended the visit.
func (d *Door[C]) Admit(v *Visit[C], from netip.Prefix, now time.Time, enter func() *Full) (
	_ *Visit[C], out *C, full *Full,
) {
	arrived := v != nil
	if arrived {
		out, full = d.prove(v)
	} else {
		v, out, full = d.begin(from, true, now)
	}
	if full == nil && out == nil && d.conns >= d.Total {
		reason := fmt.Sprintf("as many connections as Config.MaxConns allows, %d", d.conns)
		out, full = d.evict(AmongConnections, netip.Prefix{}, reason)
	}
	if full == nil {
		full = enter()
	}
	d.tally(!arrived && full == nil, out, full)
	if full == nil {
		d.conns++
	} else if v != nil {
		d.Leave(v)
	}
	return v, out, full
}

// tally updates Counts.
func (d *Door[C]) tally(begun bool, out *C, full *Full) {
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

// begin is Arrive without updating Counts.
func (d *Door[C]) begin(from netip.Prefix, proven bool, now time.Time) (v *Visit[C], out *C, full *Full) {
	d.sweep(now)
	if proven {
		out, full = d.fit(from)
	}
	if full == nil && out == nil && len(d.visits) >= d.Handshakes {
		reason := fmt.Sprintf("as many handshakes at once as Config.MaxHandshakes allows, %d", len(d.visits))
		full = noPlace(AmongHandshakes, reason)
		if proven { // a client that has proven its address may take the place of any other
			out, full = d.evict(AmongHandshakes, netip.Prefix{}, reason)
		}
	}
	if full != nil {
		return nil, nil, full
	}
	v = &Visit[C]{from: from, proven: proven, since: now}
	d.visits = append(d.visits, v)
	if proven {
		d.count(from, 1, 0)
	}
	return v, out, nil
}

// prove records that the client has completed QUIC's handshake. Its place counts for its
// address from now on.
func (d *Door[C]) prove(v *Visit[C]) (out *C, full *Full) {
	if v.proven {
		return nil, nil
	}
	out, full = d.fit(v.from)
	if full != nil {
		return nil, full
	}
	v.proven = true
	if slices.Contains(d.visits, v) { // false if it has failed and sweep has freed its place
		d.count(v.from, 1, 0)
	}
	return out, nil
}

// fit ensures that an address may have one more handshake. If necessary, it evicts one of the
// address's clients.
func (d *Door[C]) fit(from netip.Prefix) (out *C, full *Full) {
	if !from.IsValid() {
		return nil, nil
	}
	has := d.addresses[from]
	if d.Connections >= 0 && has.handshakes+has.inside >= d.Connections {
		reason := fmt.Sprintf("as many connections from %v as Config.MaxConnsPerAddress allows, %d",
			from, has.handshakes+has.inside)
		return d.evict(AmongConnections, from, reason)
	}
	if limit := d.share(); d.OfAddress >= 0 && has.handshakes >= limit {
		reason := fmt.Sprintf(
			"as many handshakes at once from %v as Config.MaxHandshakesPerAddress and MaxHandshakes allow, %d",
			from, limit)
		return d.evict(AmongHandshakes, from, reason)
	}
	return nil, nil
}

// share returns the number of handshakes that one address may have now:
// Config.MaxHandshakesPerAddress, but no more than are free. So one address alone gets half
// of all, two addresses get a third each, and there is always room for another address.
func (d *Door[C]) share() int {
	free := max(1, d.Handshakes-len(d.visits))
	if d.OfAddress > 0 {
		return min(free, d.OfAddress)
	}
	return free
}

// evict takes a place from a client of the address from, or of any address if from is not
// valid.
//
// It chooses a client of the address with the most handshakes. Of these, it chooses one that
// was not welcomed, and of those the one for which the server has waited longest. An honest
// client sends Hello and Login with the last packet of QUIC's handshake, and Join a round trip
// after the Welcome. So the server hardly ever waits for such a client.
func (d *Door[C]) evict(r Room, from netip.Prefix, reason string) (out *C, full *Full) {
	var first *Visit[C]
	for _, v := range d.visits {
		if v.yields(r) && (!from.IsValid() || v.from == from) && (first == nil || d.goesBefore(v, first)) {
			first = v
		}
	}
	if first == nil {
		return nil, noPlace(r, reason)
	}
	out = first.conn
	d.Leave(first)
	return out, nil
}

// goesBefore reports whether v makes room before w. The server has waited longer for w's
// client than for v's.
func (d *Door[C]) goesBefore(v, w *Visit[C]) bool {
	n := d.addresses[v.from].handshakes
	m := d.addresses[w.from].handshakes
	if n != m {
		return n > m
	}
	return w.welcomed && !v.welcomed
}

// Await records that the server has answered the client, and whether it has welcomed the
// client. The server waits for the client on c again. The client is now the last to make
// room.
func (d *Door[C]) Await(v *Visit[C], c *C, welcomed bool) {
	if v.left {
		return
	}
	v.conn = c
	v.welcomed = welcomed
	i := slices.Index(d.visits, v)
	d.visits = append(slices.Delete(d.visits, i, i+1), v)
}

// Leave ends a visit. A second call does nothing. The place is freed at once, or once
// forgedTime has passed and Authenticate has returned.
func (d *Door[C]) Leave(v *Visit[C]) {
	v.left = true
	v.conn = nil
	if v.proven && !v.asking {
		d.release(v)
	}
}

// MayAsk reports whether the world may call Authenticate with a token from a visit's client.
//
// If so, the place is kept until [Door.Answered] is called, even if the client leaves. If
// not, logins from that address are refused for the pause. Without a pause, this login waits
// until Authenticate has answered another one.
func (d *Door[C]) MayAsk(v *Visit[C], token []byte, now time.Time) (may bool, pause time.Duration) {
	may, pause = d.Failures.Ask(v.from, token, d.asking(v.from), now)
	switch {
	case may:
		v.asking = true
	case pause > 0:
		d.Counts.LoginsSlowed++
	}
	return may, pause
}

// asking returns the number of an address's logins for which Authenticate is running.
func (d *Door[C]) asking(from netip.Prefix) (n int) {
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
		d.release(v)
	}
}

// Refused is called when Authenticate has refused the token of a visit's client. It returns
// the number of failures of the client's address.
func (d *Door[C]) Refused(v *Visit[C], token []byte, now time.Time) (count int) {
	d.Counts.LoginsFailed++
	return d.Failures.Failed(v.from, token, now)
}

// Join ends a visit whose client has joined.
func (d *Door[C]) Join(v *Visit[C]) {
	d.Leave(v)
	d.count(v.from, 0, 1)
}

// Quit is called when a client that had joined from the address has left.
func (d *Door[C]) Quit(from netip.Prefix) { d.count(from, 0, -1) }

// End stops counting a connection that had joined and has quit, after the world has removed it.
func (d *Door[C]) End() { d.conns-- }

// Fail ends the visit of a connection that ended before it joined, and stops counting the
// connection.
func (d *Door[C]) Fail(v *Visit[C]) {
	d.Leave(v)
	d.Counts.Failed++
	d.conns--
}

// TurnAway ends the visit, if there is one, of a client that arrives when the world is
// closed.
func (d *Door[C]) TurnAway(v *Visit[C]) {
	d.Counts.Refused++
	if v != nil {
		d.Leave(v)
	}
}

// sweep frees the places of handshakes that failed before the address was proven, once
// forgedTime has passed since they began.
func (d *Door[C]) sweep(now time.Time) {
	d.visits = slices.DeleteFunc(d.visits, func(v *Visit[C]) bool {
		return v.left && !v.proven && !v.asking && now.Sub(v.since) >= forgedTime
	})
}

// release frees the place of a visit whose client has proven its address, unless the place is
// already free.
func (d *Door[C]) release(v *Visit[C]) {
	if i := slices.Index(d.visits, v); i >= 0 {
		d.visits = slices.Delete(d.visits, i, i+1)
		d.count(v.from, -1, 0)
	}
}

// count adds to the presence of an address.
func (d *Door[C]) count(from netip.Prefix, handshakes, inside int) {
	has := d.addresses[from]
	has.handshakes += handshakes
	has.inside += inside
	if has == (presence{}) {
		delete(d.addresses, from)
		return
	}
	d.addresses[from] = has
}
