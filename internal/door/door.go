// Package door decides who gets in: which clients on the way in have a place, which of them must prove their address or make room, and
// which guesses of tokens must pause. It is pure, but for random keys of its own. The world's lock guards it.
package door

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// forgedTime is the least time for which a handshake keeps its place if it failed before the client had proven its address. Everybody
// knows the keys of Initial packets (RFC 9001, section 5.2), so without it a forged CONNECTION_CLOSE would free the place at once, and
// each Initial costs the server a signature. With it there are at most rpc.Config.RetryAbove of them a second.
const forgedTime = time.Second

// Limits of a [Door].
type Limits struct {
	Handshakes  int // rpc.Config.MaxHandshakes
	OfAddress   int // rpc.Config.MaxHandshakesPerAddress
	Connections int // rpc.Config.MaxConnsPerAddress
	RetryAbove  int // rpc.Config.RetryAbove
	Total       int // rpc.Config.MaxConns
}

// Counts counts what became of clients on the way in; the game sees it as rpc.HandshakeStats.
type Counts struct {
	Begun, Retries, Refused, Evicted, Failed uint64
	LoginsFailed, LoginsSlowed               uint64
}

// Full says which limit is reached.
type Full struct {
	Reason string
	Busy   bool // others are in their handshake: moments later there may be room
}

// noPlace returns why r has no place for one more.
func noPlace(r Room, reason string) *Full { return &Full{Reason: reason, Busy: r == AmongHandshakes} }

// Door knows which clients are on the way in and which are inside, by address. A client has proven its address by a Retry or by
// finishing QUIC's handshake (RFC 9000, section 8.1). Until then nothing counts against the address, so that nobody can lock out its owner by
// forging it. Door also counts the world's connections, from their admission until the world has said good-bye to them. C is a connection.
type Door[C any] struct {
	Limits
	Failures *Failures
	Claims   *Claims[C]
	Counts   Counts

	visits    []*Visit[C] // places taken; the client that has been waited for longest comes first
	addresses map[netip.Prefix]presence
	conns     int
}

// presence counts the clients of one address; the door forgets an address that has none.
type presence struct {
	handshakes int // places whose client has proven the address
	inside     int // joined
}

// Visit is a client's place among the handshakes: from its first packet until it has joined or failed, and until
// Authenticate has answered.
type Visit[C any] struct {
	from   netip.Prefix // not valid: limits of addresses do not count
	proven bool         // the client has shown that it receives at from
	since  time.Time    // when it began
	conn   *C           // not nil: this connection waits for the client, and may have to make room
	asking bool         // Authenticate runs
	left   bool         // joined or failed; the place is kept while asking, or for forgedTime

	welcomed bool // the client may join
}

// Room says which visits may have to make room.
type Room uint8

const (
	// AmongHandshakes: each client that is waited for may have to go.
	AmongHandshakes Room = iota
	// AmongConnections: only a client that was not welcomed may have to go. A welcomed one has perhaps sent its Join already, and while
	// that is under way the client's end is connected.
	AmongConnections
)

// From returns the address from which the client came; not valid if limits of addresses do not count.
func (v *Visit[C]) From() netip.Prefix { return v.from }

// Left reports whether the client has joined, or is gone.
func (v *Visit[C]) Left() bool { return v.left }

// WaitFor says that c waits for its client from now on, and may have to make room; nil: the client waits for the server.
func (v *Visit[C]) WaitFor(c *C) { v.conn = c }

// yields reports whether the visit may have to make room.
func (v *Visit[C]) yields(r Room) bool {
	return v.conn != nil && !(v.welcomed && r == AmongConnections)
}

// New returns the door of a world without connections.
func New[C any](limits Limits, f *Failures, c *Claims[C]) *Door[C] {
	return &Door[C]{Limits: limits, Failures: f, Claims: c, addresses: make(map[netip.Prefix]presence)}
}

// Conns returns how many connections there are.
func (d *Door[C]) Conns() int { return d.conns }

// Open returns how many places are taken.
func (d *Door[C]) Open(now time.Time) int {
	d.sweep(now)
	return len(d.visits)
}

// MustProve reports whether a client that has not proven its address gets a Retry, and how many clients are on the way in. suspect says that
// it gets one in any case: see [Paths.MustProve].
func (d *Door[C]) MustProve(suspect bool, now time.Time) (must bool, open int) {
	open = d.Open(now)
	if must = suspect || open >= d.RetryAbove; must {
		d.Counts.Retries++
	}
	return must, open
}

// Arrive gives a client whose first packet has come a place among the handshakes. If out is not nil, that connection has lost its place to
// it, and the caller closes it. If nobody could make room, full says which limit is reached.
func (d *Door[C]) Arrive(from netip.Prefix, proven bool, now time.Time) (v *Visit[C], out *C, full *Full) {
	v, out, full = d.begin(from, proven, now)
	d.tally(v != nil, out, full)
	return v, out, full
}

// Admit admits and counts a connection. v is the place that its client got when it arrived, nil if its carrier came without one. Admit
// calls enter last, to take what else the connection needs. The caller closes out, unless nil, even if the connection itself is refused.
// Then Admit has ended the visit.
func (d *Door[C]) Admit(v *Visit[C], from netip.Prefix, now time.Time, enter func() *Full) (_ *Visit[C], out *C, full *Full) {
	arrived := v != nil
	if arrived {
		out, full = d.prove(v)
	} else {
		v, out, full = d.begin(from, true, now)
	}
	if full == nil && out == nil && d.conns >= d.Total {
		out, full = d.evict(AmongConnections, netip.Prefix{}, fmt.Sprintf("as many connections as Config.MaxConns allows, %d", d.conns))
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

// begin is Arrive without the counts.
func (d *Door[C]) begin(from netip.Prefix, proven bool, now time.Time) (v *Visit[C], out *C, full *Full) {
	d.sweep(now)
	if proven {
		out, full = d.fit(from)
	}
	if full == nil && out == nil && len(d.visits) >= d.Handshakes {
		reason := fmt.Sprintf("as many handshakes at once as Config.MaxHandshakes allows, %d", len(d.visits))
		if full = noPlace(AmongHandshakes, reason); proven { // who has proven an address may take the place of any other
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

// prove notes that the client finished QUIC's handshake, so that its place counts for its address from now on.
func (d *Door[C]) prove(v *Visit[C]) (out *C, full *Full) {
	if v.proven {
		return nil, nil
	}
	if out, full = d.fit(v.from); full != nil {
		return nil, full
	}
	v.proven = true
	if slices.Contains(d.visits, v) { // not if it has failed, and sweep has freed its place
		d.count(v.from, 1, 0)
	}
	return out, nil
}

// fit makes sure that an address may have one more handshake, by evicting another one of it if necessary.
func (d *Door[C]) fit(from netip.Prefix) (out *C, full *Full) {
	if !from.IsValid() {
		return nil, nil
	}
	has := d.addresses[from]
	if d.Connections >= 0 && has.handshakes+has.inside >= d.Connections {
		return d.evict(AmongConnections, from, fmt.Sprintf("as many connections from %v as Config.MaxConnsPerAddress allows, %d", from, has.handshakes+has.inside))
	}
	if limit := d.share(); d.OfAddress >= 0 && has.handshakes >= limit {
		return d.evict(AmongHandshakes, from, fmt.Sprintf("as many handshakes at once from %v as Config.MaxHandshakesPerAddress and MaxHandshakes allow, %d", from, limit))
	}
	return nil, nil
}

// share returns how many handshakes one address may have now: Config.MaxHandshakesPerAddress, but no more than are free. So one
// address alone gets half of all, two get a third each, and there is always room for a new one.
func (d *Door[C]) share() int {
	free := max(1, d.Handshakes-len(d.visits))
	if d.OfAddress > 0 {
		return min(free, d.OfAddress)
	}
	return free
}

// evict takes the place of a client of an address, or of any if from is not valid: of one whose address has most handshakes, of those one that was
// not welcomed, and of those the one that was waited for longest. An honest client sends Hello and Login with the last packet of
// QUIC's handshake, and Join a round trip after the Welcome, so the server hardly ever waits for it.
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

// goesBefore reports whether v makes room before w, for whose client the server has waited longer.
func (d *Door[C]) goesBefore(v, w *Visit[C]) bool {
	if n, m := d.addresses[v.from].handshakes, d.addresses[w.from].handshakes; n != m {
		return n > m
	}
	return w.welcomed && !v.welcomed
}

// Await notes that the server has answered the client, and has welcomed it or not. c waits for the client again, as the last in line.
func (d *Door[C]) Await(v *Visit[C], c *C, welcomed bool) {
	if v.left {
		return
	}
	v.conn, v.welcomed = c, welcomed
	i := slices.Index(d.visits, v)
	d.visits = append(slices.Delete(d.visits, i, i+1), v)
}

// Leave ends a visit; a second call does nothing. Its place is freed now, or once forgedTime has passed and Authenticate has returned.
func (d *Door[C]) Leave(v *Visit[C]) {
	v.left, v.conn = true, nil
	if v.proven && !v.asking {
		d.release(v)
	}
}

// MayAsk reports whether the world may call Authenticate with a token of a visit's client. If so, the place is kept until it has
// [Door.Answered], whatever becomes of the client. If not, logins of that address are refused for the pause; without a pause this one waits
// until Authenticate has answered another.
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

// asking returns the number of an address's logins for which Authenticate runs.
func (d *Door[C]) asking(from netip.Prefix) (n int) {
	for _, v := range d.visits {
		if v.asking && v.from == from {
			n++
		}
	}
	return n
}

// Answered notes that Authenticate has returned.
func (d *Door[C]) Answered(v *Visit[C]) {
	v.asking = false
	if v.left && v.proven {
		d.release(v)
	}
}

// Refused notes that Authenticate refused the token of a visit's client, and returns how many of its address it has refused.
func (d *Door[C]) Refused(v *Visit[C], token []byte, now time.Time) (count int) {
	d.Counts.LoginsFailed++
	return d.Failures.Failed(v.from, token, now)
}

// Join ends a visit whose client is inside from now on.
func (d *Door[C]) Join(v *Visit[C]) {
	d.Leave(v)
	d.count(v.from, 0, 1)
}

// Quit notes that a client that had joined from the address is gone.
func (d *Door[C]) Quit(from netip.Prefix) { d.count(from, 0, -1) }

// End takes back a connection that had joined and has quit, once the world has said good-bye to it.
func (d *Door[C]) End() { d.conns-- }

// Fail takes back a connection that has ended and had not joined.
func (d *Door[C]) Fail(v *Visit[C]) {
	d.Leave(v)
	d.Counts.Failed++
	d.conns--
}

// TurnAway ends the visit, if there is one, of a client that finds the world closed.
func (d *Door[C]) TurnAway(v *Visit[C]) {
	d.Counts.Refused++
	if v != nil {
		d.Leave(v)
	}
}

// sweep frees the places of handshakes that failed before the address was proven, once forgedTime has passed since they began.
func (d *Door[C]) sweep(now time.Time) {
	d.visits = slices.DeleteFunc(d.visits, func(v *Visit[C]) bool {
		return v.left && !v.proven && !v.asking && now.Sub(v.since) >= forgedTime
	})
}

// release frees the place of a visit whose client has proven its address, if it still has it.
func (d *Door[C]) release(v *Visit[C]) {
	if i := slices.Index(d.visits, v); i >= 0 {
		d.visits = slices.Delete(d.visits, i, i+1)
		d.count(v.from, -1, 0)
	}
}

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
