// Package door decides which clients may enter: which of them get a slot for their handshake, which
// must prove their address or are evicted in favor of others, and which have to pause because they
// guessed tokens. It has no clock and no goroutine, and only its keys are random. It is guarded by
// the world's lock.
package door

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// forgedTime is the minimum time that a handshake keeps its slot if it fails before the client has
// proven its address.
//
// Anybody can forge a CONNECTION_CLOSE, because the keys of Initial packets are public (RFC 9001,
// section 5.2). If a forged one freed the slot at once, the next Initial could take the slot, and
// each Initial costs the server a signature. With forgedTime, there are at most
// rpc.Config.RetryAbove signatures per second.
const forgedTime = time.Second

// Limits holds the settings of a [Door], which are the fields of rpc.Config with the same names.
type Limits struct {
	MaxHandshakes           int
	MaxHandshakesPerAddress int
	MaxConnsPerAddress      int
	RetryAbove              int
	MaxConns                int
}

// Counts counts what happened to clients. The game sees it as rpc.HandshakeStats.
type Counts struct {
	Begun, Retries, Refused, Evicted, Failed uint64
	LoginsFailed, LoginsSlowed               uint64
}

// Full says why a client is refused.
type Full struct {
	Reason string // names the limit
	Busy   bool   // the limit is one of handshakes, so the client may soon get in
}

// fullFor returns the Full for a client that needs r if nobody can be evicted.
func fullFor(r resource, reason string) *Full { return &Full{Reason: reason, Busy: r == handshakeSlot} }

// A Door knows how many clients at each address are in their handshake, and how many have joined.
// It also counts the world's connections, from their admission until the world has removed them. C
// is the type of a connection.
//
// Nothing counts against an address until the client has proven that it receives there, either by
// a Retry or by completing QUIC's handshake (RFC 9000, section 8.1). Otherwise anybody could lock
// out the address's owner by forging the address.
type Door[C any] struct {
	Limits
	Failures *Failures
	Claims   *Claims[C]
	Counts   Counts

	slots     []*Slot[C] // those taken; clients we have been waiting for longest come first
	addresses map[netip.Prefix]presence
	conns     int
}

// A presence holds the number of clients at an address. Addresses without clients have no entry.
type presence struct {
	handshakes int // clients in their handshake that have proven the address
	joined     int // clients that have joined
}

// A Slot is one of Limits.MaxHandshakes. A client takes it with its first packet, and frees it when
// it has joined or failed. While Authenticate is running for the client, the slot stays taken.
type Slot[C any] struct {
	from   netip.Prefix // invalid if limits per address don't apply
	proven bool         // the client has shown that it receives at from
	since  time.Time    // when the client took the slot

	// The connection to close if the client is evicted. It's nil while the client is waiting for
	// us, because then it can't be evicted.
	conn *C

	authenticating bool // Authenticate is running
	left           bool // the client has joined or failed, but may keep the slot for a while
	welcomed       bool // the client may join
}

// A resource is what an evicted client frees for another one.
type resource uint8

const (
	// handshakeSlot is one of Limits.MaxHandshakes, or of the handshakes that an address may
	// have. Any client that we are waiting for may be evicted to free one.
	handshakeSlot resource = iota
	// connectionSlot is one of Limits.MaxConns or MaxConnsPerAddress. A client that we have
	// welcomed isn't evicted to free one, because it may have sent its Join already and believe
	// that it is connected.
	connectionSlot
)

// From returns the client's address, which is invalid if limits per address don't apply.
func (s *Slot[C]) From() netip.Prefix { return s.from }

// Left reports whether the client has joined or failed.
func (s *Slot[C]) Left() bool { return s.left }

// WaitFor is called with the client's connection when the server begins to wait for the client,
// which may be evicted from then on. It is called with nil when the client begins to wait for the
// server.
func (s *Slot[C]) WaitFor(c *C) { s.conn = c }

// evictable reports whether the client may be evicted to free an r.
func (s *Slot[C]) evictable(r resource) bool {
	return s.conn != nil && !(s.welcomed && r == connectionSlot)
}

// New returns the Door of a world without connections.
func New[C any](limits Limits, f *Failures, c *Claims[C]) *Door[C] {
	return &Door[C]{Limits: limits, Failures: f, Claims: c, addresses: make(map[netip.Prefix]presence)}
}

// Conns returns the number of connections.
func (d *Door[C]) Conns() int { return d.conns }

// Open returns the number of slots that are taken.
func (d *Door[C]) Open(now time.Time) int {
	d.sweep(now)
	return len(d.slots)
}

// DecideRetry decides whether a client that hasn't proven its address gets a Retry, and counts it
// if so. It also returns the number of slots that are taken. If mustProve is set, the client always
// gets a Retry (see [Paths.MustProve]).
func (d *Door[C]) DecideRetry(mustProve bool, now time.Time) (retry bool, open int) {
	open = d.Open(now)
	retry = mustProve || open >= d.RetryAbove
	if retry {
		d.Counts.Retries++
	}
	return retry, open
}

// Arrive gives a client a slot when its first packet arrives. If another client is evicted, evicted
// is that client's connection, which the caller must close. If there's no slot, full says why.
func (d *Door[C]) Arrive(from netip.Prefix, proven bool, now time.Time) (s *Slot[C], evicted *C, full *Full) {
	s, evicted, full = d.takeSlot(from, proven, now)
	d.updateCounts(s != nil, evicted, full)
	return s, evicted, full
}

// Admit admits a connection and begins to count it. s is the slot that the client got from Arrive,
// or nil if its carrier has no Arrive, in which case the client gets a slot now. Admit calls enter
// last, with evicted, to reserve whatever else the connection needs. evicted may have freed that,
// so enter should count it as free: if it refuses, the eviction was in vain.
//
// The caller must close evicted unless it's nil, even if the connection itself is refused. A
// connection that is refused leaves its slot.
func (d *Door[C]) Admit(s *Slot[C], from netip.Prefix, now time.Time, enter func(evicted *C) *Full) (
	_ *Slot[C], evicted *C, full *Full,
) {
	arrived := s != nil
	if arrived {
		evicted, full = d.prove(s)
	} else {
		s, evicted, full = d.takeSlot(from, true, now)
	}
	if full == nil && evicted == nil && d.conns >= d.MaxConns {
		reason := fmt.Sprintf("connection limit of %d reached (Config.MaxConns)", d.MaxConns)
		evicted, full = d.evict(connectionSlot, netip.Prefix{}, reason)
	}
	if full == nil {
		full = enter(evicted)
	}
	d.updateCounts(!arrived && full == nil, evicted, full)
	if full == nil {
		d.conns++
	} else if s != nil {
		d.Leave(s)
	}
	return s, evicted, full
}

// updateCounts updates Counts with the result for a client.
func (d *Door[C]) updateCounts(begun bool, evicted *C, full *Full) {
	if begun {
		d.Counts.Begun++
	}
	if evicted != nil {
		d.Counts.Evicted++
	}
	if full != nil {
		d.Counts.Refused++
	}
}

// takeSlot is Arrive without the Counts. It may evict another client.
func (d *Door[C]) takeSlot(from netip.Prefix, proven bool, now time.Time) (s *Slot[C], evicted *C, full *Full) {
	d.sweep(now)
	if proven {
		evicted, full = d.makeRoom(from)
	}
	if full == nil && evicted == nil && len(d.slots) >= d.MaxHandshakes {
		reason := fmt.Sprintf("handshake limit of %d reached (Config.MaxHandshakes)", d.MaxHandshakes)
		full = fullFor(handshakeSlot, reason)
		if proven {
			// Any other client may be evicted for a client that has proven its address, but
			// none for a forged address.
			evicted, full = d.evict(handshakeSlot, netip.Prefix{}, reason)
		}
	}
	if full != nil {
		return nil, nil, full
	}
	s = &Slot[C]{from: from, proven: proven, since: now}
	d.slots = append(d.slots, s)
	if proven {
		d.addPresence(from, presence{handshakes: 1})
	}
	return s, evicted, nil
}

// prove is called when a client has proven its address by completing QUIC's handshake. From now on,
// its slot counts against the address, so prove may evict another client there.
func (d *Door[C]) prove(s *Slot[C]) (evicted *C, full *Full) {
	if s.proven {
		return nil, nil
	}
	evicted, full = d.makeRoom(s.from)
	if full != nil {
		return nil, full
	}
	s.proven = true
	if slices.Contains(d.slots, s) {
		// Otherwise the client has failed already, and sweep has freed its slot.
		d.addPresence(s.from, presence{handshakes: 1})
	}
	return evicted, nil
}

// makeRoom makes sure that an address may have another handshake, and evicts one of the address's
// clients if necessary.
func (d *Door[C]) makeRoom(from netip.Prefix) (evicted *C, full *Full) {
	if !from.IsValid() {
		return nil, nil
	}
	has := d.addresses[from]
	if d.MaxConnsPerAddress >= 0 && has.handshakes+has.joined >= d.MaxConnsPerAddress {
		reason := fmt.Sprintf("connection limit of %d reached for %v (Config.MaxConnsPerAddress)",
			d.MaxConnsPerAddress, from)
		return d.evict(connectionSlot, from, reason)
	}
	if limit := d.shareOfAddress(); d.MaxHandshakesPerAddress >= 0 && has.handshakes >= limit {
		reason := fmt.Sprintf(
			"handshake limit of %d reached for %v (Config.MaxHandshakesPerAddress and MaxHandshakes)",
			limit, from)
		return d.evict(handshakeSlot, from, reason)
	}
	return nil, nil
}

// shareOfAddress returns the number of handshakes that a single address may have now. That's the
// configured number, but never more than the number of free slots. So a single address gets half
// of all slots, two addresses get a third each, and there's always room for another address.
func (d *Door[C]) shareOfAddress() int {
	free := max(1, d.MaxHandshakes-len(d.slots))
	if d.MaxHandshakesPerAddress > 0 {
		return min(free, d.MaxHandshakesPerAddress)
	}
	return free
}

// evict evicts a client from the given address, or from any if the address is invalid, to free an
// r. If it finds no such client, the result is a Full with the given reason.
//
// It picks a client from the address with the most handshakes, preferably one that we haven't
// welcomed. Among several, it picks the one that we have been waiting for longest. That is hardly
// ever an honest client, because honest clients don't keep us waiting: they send Hello and Login
// along with the last packet of QUIC's handshake, and Join a round trip after the Welcome.
func (d *Door[C]) evict(r resource, from netip.Prefix, reason string) (evicted *C, full *Full) {
	var first *Slot[C]
	for _, s := range d.slots {
		if s.evictable(r) && (!from.IsValid() || s.from == from) && (first == nil || d.goesBefore(s, first)) {
			first = s
		}
	}
	if first == nil {
		return nil, fullFor(r, reason)
	}
	evicted = first.conn
	d.Leave(first)
	return evicted, nil
}

// goesBefore reports whether s should be evicted rather than t, although we have been waiting for
// longer for t.
func (d *Door[C]) goesBefore(s, t *Slot[C]) bool {
	ofS := d.addresses[s.from].handshakes
	ofT := d.addresses[t.from].handshakes
	if ofS != ofT {
		return ofS > ofT
	}
	return t.welcomed && !s.welcomed
}

// Await is called when the server has answered the client, perhaps with a Welcome, and begins to
// wait for the client again, which is therefore the last to be evicted. c is the client's
// connection.
func (d *Door[C]) Await(s *Slot[C], c *C, welcomed bool) {
	if s.left {
		return
	}
	s.conn = c
	s.welcomed = welcomed
	i := slices.Index(d.slots, s)
	d.slots = append(slices.Delete(d.slots, i, i+1), s)
}

// Leave is called when a client has joined or failed. Its slot becomes free unless Authenticate is
// running for it. If the address is unproven, the slot also stays taken until forgedTime after the
// client took it. A second call is a no-op.
func (d *Door[C]) Leave(s *Slot[C]) {
	s.left = true
	s.conn = nil
	d.freeSlot(s)
}

// Ask decides whether the world may call Authenticate with a client's token now. If allowed is
// true, the world must call Authenticate and then [Door.Answered]. The client keeps its slot until
// then, even if it leaves.
//
// Otherwise the world must refuse logins from that address for the duration of pause. If pause is
// 0, this login only has to wait until Authenticate has answered another one.
func (d *Door[C]) Ask(s *Slot[C], token []byte, now time.Time) (allowed bool, pause time.Duration) {
	allowed, pause = d.Failures.Ask(s.from, token, d.authenticating(s.from), now)
	switch {
	case allowed:
		s.authenticating = true
	case pause > 0:
		d.Counts.LoginsSlowed++
	}
	return allowed, pause
}

// authenticating returns the number of an address's logins for which Authenticate is running.
func (d *Door[C]) authenticating(from netip.Prefix) (n int) {
	for _, s := range d.slots {
		if s.authenticating && s.from == from {
			n++
		}
	}
	return n
}

// Answered is called when Authenticate has returned.
func (d *Door[C]) Answered(s *Slot[C]) {
	s.authenticating = false
	d.freeSlot(s)
}

// Refused is called when Authenticate has refused a client's token. It returns the number of
// failures that the client's address has now.
func (d *Door[C]) Refused(s *Slot[C], token []byte, now time.Time) (count int) {
	d.Counts.LoginsFailed++
	return d.Failures.Failed(s.from, token, now)
}

// Join is called when a client joins. The client then counts as joined until Quit, and its
// connection until End.
func (d *Door[C]) Join(s *Slot[C]) {
	d.Leave(s)
	d.addPresence(s.from, presence{joined: 1})
}

// Quit is called when a client that joined from the given address leaves.
func (d *Door[C]) Quit(from netip.Prefix) { d.addPresence(from, presence{joined: -1}) }

// End stops counting a connection. It is called after Quit, when the world has removed the client.
func (d *Door[C]) End() { d.conns-- }

// Fail is called when a connection ends before the client has joined. It stops counting the
// connection.
func (d *Door[C]) Fail(s *Slot[C]) {
	d.Leave(s)
	d.Counts.Failed++
	d.conns--
}

// TurnAway is called when a client arrives while the world is closed. s is nil if the client has no
// slot.
func (d *Door[C]) TurnAway(s *Slot[C]) {
	d.Counts.Refused++
	if s != nil {
		d.Leave(s)
	}
}

// sweep frees the slots of clients that failed without proving their address, unless they took them
// less than forgedTime ago.
func (d *Door[C]) sweep(now time.Time) {
	d.slots = slices.DeleteFunc(d.slots, func(s *Slot[C]) bool {
		return s.left && !s.proven && !s.authenticating && now.Sub(s.since) >= forgedTime
	})
}

// freeSlot frees the slot of a client that has proven its address, if the client has left and
// Authenticate isn't running for it. It is a no-op if the slot is free already. The slots of other
// clients are freed by sweep.
func (d *Door[C]) freeSlot(s *Slot[C]) {
	if !s.left || !s.proven || s.authenticating {
		return
	}
	if i := slices.Index(d.slots, s); i >= 0 {
		d.slots = slices.Delete(d.slots, i, i+1)
		d.addPresence(s.from, presence{handshakes: -1})
	}
}

// addPresence adds to the numbers of clients at an address.
func (d *Door[C]) addPresence(from netip.Prefix, change presence) {
	has := d.addresses[from]
	has.handshakes += change.handshakes
	has.joined += change.joined
	if has == (presence{}) {
		delete(d.addresses, from)
		return
	}
	d.addresses[from] = has
}
