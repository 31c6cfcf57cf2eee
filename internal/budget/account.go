package budget

import "sync"

// A Pool limits the memory that a world spends on incoming transfers. Half of the pool is
// kept for small charges. So a new or idle connection can still receive something when others
// take all they can get. A Pool is safe for concurrent use.
type Pool struct {
	kept int64 // bytes kept for small charges

	mu   sync.Mutex // guards the fields below
	left int64      // free bytes
	// Bytes charged to each party, counting at most Terms.Floor for each account. Party{} is
	// not counted.
	small map[Party]int64
}

// partyPart limits the accounts of one party to seven eighths of the kept part. That is
// enough for many machines that share a login. Without this limit, a hundred idle connections
// from one client used up the kept part, and nobody else could start a transfer.
const partyPart = 7. / 8

// NewPool returns a pool that holds the given number of bytes.
func NewPool(bytes int64) *Pool {
	return &Pool{left: bytes, kept: bytes / 2, small: make(map[Party]int64)}
}

// take charges n bytes to a party. If there is no room for them, it charges nothing and
// returns false.
//
// Up to small of the bytes may come from the kept part, within the party's share of that
// part. The rest may take half of the bytes that are free outside the kept part, so no
// connection takes them all.
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

// give returns n bytes to the pool for a party. small is the part of them that Terms.Floor
// limited. If n is negative, give takes bytes, however few are left.
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
	p.small[party] += small
	if p.small[party] == 0 {
		delete(p.small, party)
	}
}

// Free returns the number of bytes left.
func (p *Pool) Free() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}

// Terms are the rules of an account, in bytes.
type Terms struct {
	Floor int64 // part of the charge that may come from the kept part of the pool
	Early int64 // bytes that may be held beyond the promises
	GoOn  int64 // size of the reserve for the awaited chunk, see [Account]
}

// An Account charges its world's pool for one connection. The charge covers the memory the
// connection holds, by its real size, or the credit promised to it, whichever is more. It
// also covers a reserve. An Account is safe for concurrent use. Its lock is taken after all
// others except the pool's.
//
// Chunks are delivered in order. So a chunk that gets no memory blocks all chunks after it,
// while their credit fills the pool. To keep a full pool from stalling transfers in progress,
// each charge sets aside a reserve of Terms.GoOn bytes for the awaited chunk. Delivering that
// chunk frees the reserve for the next one.
type Account struct {
	world *Pool

	mu      sync.Mutex // guards the fields below
	terms   Terms
	party   Party // owner of the account; zero if unknown
	sums    Sums
	charged int64 // bytes charged to the pool, between sums.least and sums.most
	closed  bool
}

// NewAccount returns an account for a connection that holds nothing yet.
func NewAccount(world *Pool, terms Terms) *Account { return &Account{world: world, terms: terms} }

// Bill sets the party that is charged. Party{} means that the party is unknown. Its share of
// the kept part is then not limited.
func (a *Account) Bill(party Party) { a.chargeAnew(func() { a.party = party }) }

// SetTerms changes the terms. They also apply to what is already held.
func (a *Account) SetTerms(terms Terms) { a.chargeAnew(func() { a.terms = terms }) }

// chargeAnew changes the rules of charging and then charges the pool again by the new rules.
func (a *Account) chargeAnew(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	charged := a.charged
	a.charge(0)
	change()
	a.charge(charged)
	a.settle()
}

// charge sets the charge of the pool, however little the pool has left. The caller holds mu.
func (a *Account) charge(bytes int64) {
	a.world.give(a.party, a.charged-bytes, a.small(a.charged)-a.small(bytes))
	a.charged = bytes
}

// small returns the part of a charge that may come from the kept part of the pool.
func (a *Account) small(charged int64) int64 { return min(charged, a.terms.Floor) }

// Sums are the bytes for which an account is charged.
type Sums struct {
	Held     int64 // content, which promises cover
	Promised int64 // credit, including the part already held
	Borrowed int64 // held in addition to all promises
}

// plus returns the sums of s and more.
func (s Sums) plus(more Sums) Sums {
	return Sums{s.Held + more.Held, s.Promised + more.Promised, s.Borrowed + more.Borrowed}
}

// least returns the charge if the reserve is fully used.
func (s Sums) least() int64 { return max(s.Held, s.Promised) + s.Borrowed }

// most returns the charge if the reserve is unused. A connection that neither holds nor is
// promised anything needs no reserve.
func (s Sums) most(goOn int64) int64 {
	if s.Held == 0 && s.Promised == 0 {
		return s.Borrowed
	}
	return s.least() + goOn
}

// Charge returns the sums and the number of bytes the pool is charged for them.
func (a *Account) Charge() (Sums, int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sums, a.charged
}

// Hold adds n bytes of held memory. If they exceed the promises and Terms.Early, or if the
// pool has too few bytes left, it adds nothing and returns false.
//
// Bytes within the promises always fit, because they are already charged. An awaited chunk
// may use the reserve.
func (a *Account) Hold(n int64, awaited bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	more := Sums{Held: n}
	held := a.sums.Held + n
	switch {
	case a.closed:
		return false
	case held <= a.sums.Promised:
		a.sums.Held = held
		return true
	case held <= a.sums.Promised+a.terms.Early && a.change(more):
		return true
	}
	return awaited && a.useReserve(more)
}

// HoldBeyond adds n bytes of held memory, however little the pool has left. If more than
// beyond bytes would then be held beyond the promises, it adds nothing and returns false.
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

// Borrow adds n bytes held in addition to all promises, if the pool has them. Records that an
// awaited chunk needs may use the reserve.
func (a *Account) Borrow(n int64, awaited bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	more := Sums{Borrowed: n}
	return !a.closed && (a.change(more) || awaited && a.useReserve(more))
}

// Promise adds credit for n bytes if the pool has them.
func (a *Account) Promise(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.closed && a.change(Sums{Promised: n})
}

// MustHold adds n bytes of held memory regardless of the limits. Use it only for small
// amounts that are limited elsewhere.
func (a *Account) MustHold(n int64) { a.must(Sums{Held: n}) }

// Drop removes n bytes that are no longer held.
func (a *Account) Drop(n int64) { a.must(Sums{Held: -n}) }

// Withdraw takes back a promise.
func (a *Account) Withdraw(n int64) { a.must(Sums{Promised: -n}) }

// must adds to the sums regardless of the limits.
func (a *Account) must(more Sums) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sums = a.sums.plus(more)
	a.settle()
}

// MustBorrow adds n bytes held in addition to all promises, regardless of the limits. They do
// not use the reserve.
func (a *Account) MustBorrow(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sums.Borrowed += n
	if !a.closed {
		a.charge(a.charged + n)
	}
	a.settle()
}

// Repay removes n borrowed bytes that are no longer held and frees them for the pool. Bytes
// borrowed from the reserve must not be repaid, because they would not return to the reserve.
func (a *Account) Repay(n int64) { a.MustBorrow(-n) }

// useReserve adds more if the reserve is large enough. The caller holds mu.
func (a *Account) useReserve(more Sums) bool {
	after := a.sums.plus(more)
	if after.least() > a.charged {
		return false
	}
	a.sums = after
	return true
}

// change charges the pool for more and for the whole reserve. If the pool has too little, it
// charges nothing and returns false. The caller holds mu.
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

// settle charges the pool for the current sums. It is called after sums have decreased or may
// exceed the charge. Freed bytes first refill the reserve. The caller holds mu.
func (a *Account) settle() {
	if a.closed {
		return
	}
	a.charge(min(max(a.charged, a.sums.least()), a.sums.most(a.terms.GoOn)))
}

// Close returns the whole charge to the pool. Memory that is still held is freed with its
// transfers.
func (a *Account) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.charge(0)
}
