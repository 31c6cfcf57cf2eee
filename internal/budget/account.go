package budget

import "sync"

// Pool is the memory of a world for the transfers that its peers send. Half of it is kept for small charges, so that a connection that
// comes late or holds little has room for a small transfer besides many that take all they can get. It is safe for concurrent use.
type Pool struct {
	kept int64 // bytes

	mu    sync.Mutex      // guards the fields below
	left  int64           // bytes
	small map[Party]int64 // bytes for which the accounts of each party are charged, of each its Terms.Floor at most; none of Party{}
}

// partyPart: the accounts of one party have at most seven eighths of the kept part, which is enough for a crowd of machines with one login. A
// hundred connections of one client that send nothing had all of it, and nobody else could begin a transfer.
const partyPart = 7. / 8

// NewPool returns a pool that holds the given number of bytes.
func NewPool(bytes int64) *Pool {
	return &Pool{left: bytes, kept: bytes / 2, small: make(map[Party]int64)}
}

// take takes n bytes for a party or, if it returns false, none. Up to small of them may come from the kept part, if that leaves some of it to
// other parties. The rest may take half of the bytes that are free beside the kept part, so that no connection takes them all.
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

// give returns n bytes of a party, small of them of what Terms.Floor bounds. If n is negative, it takes them, whatever is left.
func (p *Pool) give(party Party, n, small int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.charge(party, -n, -small)
}

// charge charges a party. The caller holds the lock.
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
	Floor int64 // how much of the charge may come from the kept part of the pool
	Early int64 // how much may be held beyond the promises
	GoOn  int64 // the room to go on, see [Account]
}

// Account charges its world's pool for one connection: for the memory that it holds, by its real size, or the credit that was
// promised to it, whichever is more, and for room to go on. It is safe for concurrent use; its lock is taken after all others but the
// pool's.
//
// The room to go on keeps a full pool from stopping transfers that have begun. Chunks are handed over in order, so one that finds no
// memory holds up all behind it, and their credit fills the pool. Therefore Terms.GoOn bytes of each charge are left free for the
// awaited chunk: it comes in, is handed over, and its room is there for the next.
type Account struct {
	world *Pool

	mu      sync.Mutex // guards the fields below
	terms   Terms
	party   Party // whose account it is; zero = not known
	sums    Sums
	charged int64 // what the pool was charged: from sums.least to sums.most
	closed  bool
}

// NewAccount returns an account of a connection that holds nothing yet.
func NewAccount(world *Pool, terms Terms) *Account { return &Account{world: world, terms: terms} }

// Bill says whose account it is. Party{}, which has neither an identity nor an address, is nobody.
func (a *Account) Bill(party Party) { a.chargeAnew(func() { a.party = party }) }

// SetTerms changes the rules, also for what is held.
func (a *Account) SetTerms(terms Terms) { a.chargeAnew(func() { a.terms = terms }) }

// chargeAnew changes by what rules the pool is charged, and charges it by the new ones.
func (a *Account) chargeAnew(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	charged := a.charged
	a.charge(0)
	change()
	a.charge(charged)
	a.settle()
}

// charge charges the pool, whatever is left there. The caller holds the lock.
func (a *Account) charge(bytes int64) {
	a.world.give(a.party, a.charged-bytes, a.small(a.charged)-a.small(bytes))
	a.charged = bytes
}

// small returns how much of a charge may come from the kept part of the pool.
func (a *Account) small(charged int64) int64 { return min(charged, a.terms.Floor) }

// Sums are the bytes for which an account is charged.
type Sums struct {
	Held     int64 // of content, which promises cover
	Promised int64 // credit, some of it held by now
	Borrowed int64 // held besides all promises
}

func (s Sums) plus(more Sums) Sums {
	return Sums{s.Held + more.Held, s.Promised + more.Promised, s.Borrowed + more.Borrowed}
}

// least returns the charge while all of the room to go on is in use.
func (s Sums) least() int64 { return max(s.Held, s.Promised) + s.Borrowed }

// most returns the charge with all of the room free. A connection that neither holds nor is promised anything needs no room.
func (s Sums) most(goOn int64) int64 {
	if s.Held == 0 && s.Promised == 0 {
		return s.Borrowed
	}
	return s.least() + goOn
}

// Charge returns the sums for which the account is charged, and how many bytes of the pool that takes.
func (a *Account) Charge() (Sums, int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sums, a.charged
}

// Hold notes n more bytes of memory. It returns false, and notes nothing, if they are beyond the promises and Terms.Early, or if the pool
// has too few left. Bytes within the promises always fit, since those are charged already. An awaited chunk may use the room to go on.
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

// HoldBeyond notes n more bytes of memory, whatever the pool has left, as long as no more than beyond is held beyond the promises. It returns false,
// and notes nothing, if more would be.
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

// Borrow notes n bytes that are held besides all promises, if the pool has them. Records that an awaited chunk needs may use the room to
// go on.
func (a *Account) Borrow(n int64, awaited bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	more := Sums{Borrowed: n}
	return !a.closed && (a.change(more) || awaited && a.goOn(more))
}

// Promise notes credit for n bytes, if the pool has them.
func (a *Account) Promise(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.closed && a.change(Sums{Promised: n})
}

// MustHold notes n more bytes of memory whatever the limits are. It is for few bytes, which are bounded elsewhere.
func (a *Account) MustHold(n int64) { a.must(Sums{Held: n}) }

// Drop notes that n bytes are held no more.
func (a *Account) Drop(n int64) { a.must(Sums{Held: -n}) }

// Withdraw takes back a promise.
func (a *Account) Withdraw(n int64) { a.must(Sums{Promised: -n}) }

func (a *Account) must(more Sums) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sums = a.sums.plus(more)
	a.settle()
}

// MustBorrow notes n bytes that are held besides all promises, whatever the limits are. They do not use the room to go on.
func (a *Account) MustBorrow(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sums.Borrowed += n
	if !a.closed {
		a.charge(a.charged + n)
	}
	a.settle()
}

// Repay notes that n borrowed bytes are held no more.
func (a *Account) Repay(n int64) { a.MustBorrow(-n) }

// goOn notes more bytes if the room to go on is large enough. The caller holds the lock.
func (a *Account) goOn(more Sums) bool {
	after := a.sums.plus(more)
	if after.least() > a.charged {
		return false
	}
	a.sums = after
	return true
}

// change charges the pool for more, and for all of the room to go on, or for nothing. The caller holds the lock.
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

// settle charges the pool for the sums as they are, after some have fallen or must rise. Bytes that were given up fill the room to go on
// first. The caller holds the lock.
func (a *Account) settle() {
	if a.closed {
		return
	}
	a.charge(min(max(a.charged, a.sums.least()), a.sums.most(a.terms.GoOn)))
}

// Close returns the whole charge to the pool. Memory that is still held is freed with its transfers.
func (a *Account) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.charge(0)
}
