package budget

import "sync"

// A Pool limits the memory that a world spends on incoming transfers. Half of it
// is kept for small charges, so that a new or idle connection can still receive
// something when others take all they can get. It is safe for concurrent use.
type Pool struct {
	kept int64 // bytes kept for small charges

	mu   sync.Mutex // guards the fields below
	left int64      // free bytes
	// Bytes charged to each party, counting at most Terms.Floor per account;
	// Party{} is not counted.
	small map[Party]int64
}

// partyPart limits the accounts of one party to seven eighths of the kept part, which is
// enough for many machines that share a login. Without this limit, a hundred idle
// connections from one client used up the kept part, and nobody else could start a transfer.
const partyPart = 7. / 8

// NewPool returns a pool that holds the given number of bytes.
func NewPool(bytes int64) *Pool {
	return &Pool{left: bytes, kept: bytes / 2, small: make(map[Party]int64)}
}

// take charges n bytes to a party, or charges nothing and returns false. Up to small of
// them may come from the kept part, within the party's share of it. The rest may take half
// of the bytes that are free outside the kept part, so that no connection takes them all.
func (p *Pool) take(party Party, n, small int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := small
	if party != (Party{}) {
		kept = min(small, max(0, int64(partyPart*float64(p.kept))-p.small[party]))
	}
	if n > p.left || n > kept && n-kept > (p.left-kept-p.kept)/2 {
		return false
	}
	p.charge(party, n, small)
	return true
}

// give returns n bytes of a party; small of them were limited by Terms.Floor.
// If n is negative, give takes bytes, however few are left.
func (p *Pool) give(party Party, n, small int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.charge(party, -n, -small)
}

// charge charges a party. The caller holds mu.
func (p *Pool) charge(party Party, n, small int64) {
	p.left -= n
	if party == (Party{}) {
		return
	}
	if p.small[party] += small; p.small[party] == 0 {
		delete(p.small, party)
	}
}

// Free returns how many bytes are left.
func (p *Pool) Free() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}

// Terms are the rules of an account, in bytes.
type Terms struct {
	Floor int64 // how much of the charge may be taken from the kept part of the pool
	Early int64 // how much may be held beyond the promises
	GoOn  int64 // the room to go on, see [Account]
}

// An Account charges its world's pool for one connection: for the memory that it holds, by its
// real size, or for the credit that was promised to it, whichever is more, and for room to go
// on. It is safe for concurrent use. Its lock is taken after all others except the pool's.
//
// Chunks are delivered in order, so one that gets no memory blocks all those
// after it, while their credit fills the pool. To keep a full pool from stalling
// transfers in progress, each charge sets aside Terms.GoOn bytes for the awaited
// chunk, the room to go on. Delivering that chunk frees them for the next.
type Account struct {
	world *Pool

	mu      sync.Mutex // guards the fields below
	terms   Terms
	party   Party // whose account it is; zero = unknown
	sums    Sums
	charged int64 // what the pool was charged: between sums.least and sums.most
	closed  bool
}

// NewAccount returns an account of a connection that holds nothing yet.
func NewAccount(world *Pool, terms Terms) *Account { return &Account{world: world, terms: terms} }

// Bill sets the party that is charged. Party{} means that it is unknown: its
// share of the kept part is not limited.
func (a *Account) Bill(party Party) { a.chargeAnew(func() { a.party = party }) }

// SetTerms changes the terms, also for what is already held.
func (a *Account) SetTerms(terms Terms) { a.chargeAnew(func() { a.terms = terms }) }

// chargeAnew changes the rules by which the pool is charged, and charges it again.
func (a *Account) chargeAnew(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	charged := a.charged
	a.charge(0)
	change()
	a.charge(charged)
	a.settle()
}

// charge sets the charge of the pool, however little is left there. The caller holds mu.
func (a *Account) charge(bytes int64) {
	a.world.give(a.party, a.charged-bytes, a.small(a.charged)-a.small(bytes))
	a.charged = bytes
}

// small returns how much of a charge may be taken from the kept part of the pool.
func (a *Account) small(charged int64) int64 { return min(charged, a.terms.Floor) }

// Sums are the bytes for which an account is charged.
type Sums struct {
	Held     int64 // of content, which promises cover
	Promised int64 // credit, some of which is already held
	Borrowed int64 // held in addition to all promises
}

// plus returns the sums of s and more.
func (s Sums) plus(more Sums) Sums {
	return Sums{s.Held + more.Held, s.Promised + more.Promised, s.Borrowed + more.Borrowed}
}

// least returns the charge if all of the room to go on is in use.
func (s Sums) least() int64 { return max(s.Held, s.Promised) + s.Borrowed }

// most returns the charge if all of the room to go on is free. A connection
// that neither holds nor is promised anything needs no room.
func (s Sums) most(goOn int64) int64 {
	if s.Held == 0 && s.Promised == 0 {
		return s.Borrowed
	}
	return s.least() + goOn
}

// Charge returns the sums, and how many bytes the pool is charged for them.
func (a *Account) Charge() (Sums, int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sums, a.charged
}

// Hold adds n bytes of held memory. It returns false, and adds nothing, if they exceed the
// promises and Terms.Early, or if the pool has too few left. Bytes within the promises
// always fit, because they are already charged. An awaited chunk may use the room to go on.
func (a *Account) Hold(n int64, awaited bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	more, held := Sums{Held: n}, a.sums.Held+n
	switch {
	case a.closed:
		return false
	case held <= a.sums.Promised:
		a.sums.Held = held
		return true
	case held <= a.sums.Promised+a.terms.Early && a.change(more):
		return true
	}
	return awaited && a.goOn(more)
}

// HoldBeyond adds n bytes of held memory, however little the pool has left, if at most beyond
// bytes are then held beyond the promises. Otherwise it returns false, and adds nothing.
func (a *Account) HoldBeyond(n, beyond int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.sums.Held+n > a.sums.Promised+beyond {
		return false
	}
	a.sums.Held += n
	a.settle()
	return true
}

// Borrow adds n bytes that are held in addition to all promises, if the pool
// has them. Records that an awaited chunk needs may use the room to go on.
func (a *Account) Borrow(n int64, awaited bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	more := Sums{Borrowed: n}
	return !a.closed && (a.change(more) || awaited && a.goOn(more))
}

// Promise adds credit for n bytes, if the pool has them.
func (a *Account) Promise(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.closed && a.change(Sums{Promised: n})
}

// MustHold adds n bytes of held memory whatever the limits are. Use it only for
// small amounts that are limited elsewhere.
func (a *Account) MustHold(n int64) { a.must(Sums{Held: n}) }

// Drop removes n bytes that are no longer held.
func (a *Account) Drop(n int64) { a.must(Sums{Held: -n}) }

// Withdraw takes back a promise.
func (a *Account) Withdraw(n int64) { a.must(Sums{Promised: -n}) }

// must adds to the sums, whatever the limits are.
func (a *Account) must(more Sums) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sums = a.sums.plus(more)
	a.settle()
}

// MustBorrow adds n bytes that are held in addition to all promises, whatever
// the limits are. They do not use the room to go on.
func (a *Account) MustBorrow(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sums.Borrowed += n
	if !a.closed {
		a.charge(a.charged + n)
	}
	a.settle()
}

// Repay removes n borrowed bytes that are no longer held. It frees them for the pool. Bytes that
// were borrowed from the room to go on must not be repaid, because they would not return there.
func (a *Account) Repay(n int64) { a.MustBorrow(-n) }

// goOn adds more if the room to go on is large enough. The caller holds mu.
func (a *Account) goOn(more Sums) bool {
	after := a.sums.plus(more)
	if after.least() > a.charged {
		return false
	}
	a.sums = after
	return true
}

// change charges the pool for more, and for all of the room to go on. It
// charges nothing if the pool has too little. The caller holds mu.
func (a *Account) change(more Sums) bool {
	after := a.sums.plus(more)
	need := after.most(a.terms.GoOn) - a.charged
	if need > 0 && !a.world.take(a.party, need, a.small(a.charged+need)-a.small(a.charged)) {
		return false
	}
	a.sums = after
	a.charged += need
	return true
}

// settle charges the pool for the current sums, after some have decreased or may
// exceed the charge. Freed bytes refill the room to go on first. The caller holds mu.
func (a *Account) settle() {
	if a.closed {
		return
	}
	a.charge(min(max(a.charged, a.sums.least()), a.sums.most(a.terms.GoOn)))
}

// Close returns the whole charge to the pool. Memory that is still held is
// freed with its transfers.
func (a *Account) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.charge(0)
}
