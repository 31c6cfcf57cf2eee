package budget

import "sync"

// A Pool is the memory that a world may spend on incoming transfers.
//
// Half of it is set aside for floors: the first Terms.Floor bytes that an [Account] charges may
// come from that half, so a new or idle connection can still receive something after other
// connections have taken all they can get.
//
// A Pool is safe for concurrent use.
type Pool struct {
	floorBytes int64 // half of the pool, for charges within the accounts' floors

	mu   sync.Mutex // guards the fields below
	free int64      // bytes; negative if charges that can't be refused exceed the pool

	// The bytes that each party has charged within its accounts' floors. Party{} isn't tracked.
	floorUse map[Party]int64
}

// maxPartyShare is the share of floorBytes that all accounts of one party may use together. It's
// large, because many machines may share a login, but it leaves an eighth to others. Without a
// limit, a hundred idle connections from one client could use up floorBytes, and nobody else could
// start a transfer.
const maxPartyShare = 7. / 8

// PartyShare is the share of a pool that one party can count on if all others together use no more
// than the other half: its share of floorBytes.
const PartyShare = maxPartyShare / 2

// NewPool returns a pool of the given size in bytes.
func NewPool(bytes int64) *Pool {
	return &Pool{free: bytes, floorBytes: bytes / 2, floorUse: make(map[Party]int64)}
}

// take charges n bytes to a party. Of these, floor bytes are within its account's floor. If
// they don't fit, take charges nothing and returns false.
func (p *Pool) take(party Party, n, floor int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > p.free {
		return false
	}

	// The floor comes out of floorBytes, up to what is left of the party's share.
	fromFloor := floor
	if party != (Party{}) {
		limit := int64(maxPartyShare * float64(p.floorBytes))
		fromFloor = min(floor, max(0, limit-p.floorUse[party]))
	}

	// The rest may take at most half of the bytes that would then be free beyond floorBytes, so
	// that no connection can take all of them.
	rest := n - fromFloor
	if rest > 0 && rest > (p.free-fromFloor-p.floorBytes)/2 {
		return false
	}
	p.charge(party, n, floor)
	return true
}

// give returns n bytes to the pool. Of these, floor bytes were within the account's floor. If n
// is negative, give charges the bytes instead, even if the pool has run out.
func (p *Pool) give(party Party, n, floor int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.charge(party, -n, -floor)
}

// charge updates the books for take and give. The caller holds mu.
func (p *Pool) charge(party Party, n, floor int64) {
	p.free -= n
	if party == (Party{}) {
		return
	}
	p.floorUse[party] += floor
	if p.floorUse[party] == 0 {
		delete(p.floorUse, party)
	}
}

// Free returns the number of bytes left.
func (p *Pool) Free() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}

// Terms are the limits of an account, in bytes.
type Terms struct {
	Floor int64 // part of the charge that may come from the half of the pool set aside for floors
	Early int64 // bytes that may be held without a promise
	GoOn  int64 // size of the reserve for the awaited chunk and for records, see [Account]
}

// An Account keeps track of the memory that one connection makes us hold, and charges it to
// the world's [Pool]. It charges for the memory that the connection really uses or for the
// credit that we have promised its peer, whichever is more, because the peer may use that
// credit at any time.
//
// Chunks are delivered in order. A chunk that gets no memory blocks all chunks behind it, while
// the credit promised for them fills up the pool. To keep transfers moving even when the pool
// is full, the charge includes a reserve of Terms.GoOn bytes. Only the awaited chunk (the next
// one to be delivered) and the records of chunks may use the reserve. When they are freed, their
// memory goes back into the reserve for the next chunks.
//
// An Account is safe for concurrent use. Its lock may be acquired while holding any other lock
// except the pool's.
type Account struct {
	pool *Pool

	mu      sync.Mutex // guards the fields below
	terms   Terms
	party   Party // who owns the account; zero if unknown
	sums    Sums
	charged int64 // bytes taken from the pool, from sums.minCharge to sums.maxCharge
	closed  bool
}

// NewAccount returns an account for a connection that doesn't hold anything yet.
func NewAccount(world *Pool, terms Terms) *Account { return &Account{pool: world, terms: terms} }

// Bill sets the party to which the account belongs. If it is Party{} (unknown), its share of
// the memory set aside for floors isn't limited.
func (a *Account) Bill(party Party) { a.recharge(func() { a.party = party }) }

// SetTerms changes the terms. They also apply to memory that is already held.
func (a *Account) SetTerms(terms Terms) { a.recharge(func() { a.terms = terms }) }

// recharge returns the whole charge to the pool, calls change, and then takes the charge again,
// because the party and the floor decide how the pool accounts for it.
func (a *Account) recharge(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	charged := a.charged
	a.setCharge(0)
	change()
	a.setCharge(charged)
	a.settle() // the size of the reserve may have changed
}

// setCharge raises or lowers the charge, even if the pool has run out. The caller holds mu.
func (a *Account) setCharge(bytes int64) {
	a.pool.give(a.party, a.charged-bytes, a.floorPart(a.charged)-a.floorPart(bytes))
	a.charged = bytes
}

// floorPart returns the part of a charge that is within the account's floor.
func (a *Account) floorPart(charge int64) int64 { return min(charge, a.terms.Floor) }

// Sums add up the bytes that an account is charged for.
type Sums struct {
	Held     int64 // content, which uses up promises
	Promised int64 // credit, both used and unused
	Borrowed int64 // other memory in use, which no promise covers
}

// plus returns the sums of s and more.
func (s Sums) plus(more Sums) Sums {
	return Sums{s.Held + more.Held, s.Promised + more.Promised, s.Borrowed + more.Borrowed}
}

// minCharge returns the charge when all of the reserve is in use.
func (s Sums) minCharge() int64 { return max(s.Held, s.Promised) + s.Borrowed }

// maxCharge returns the charge when none of the reserve is in use. A connection without content
// or promises isn't waiting for any chunk, so it needs no reserve.
func (s Sums) maxCharge(reserve int64) int64 {
	if s.Held == 0 && s.Promised == 0 {
		return s.Borrowed
	}
	return s.minCharge() + reserve
}

// Charge returns the sums, and the number of bytes taken from the pool for them.
func (a *Account) Charge() (Sums, int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sums, a.charged
}

// Hold adds n bytes of content and reports whether there was room for them. If there wasn't,
// nothing changes.
//
// Content within the promises always fits, because the promises have been charged already. Up
// to Terms.Early additional bytes may be held if the pool can spare them. If all else fails,
// the awaited chunk may use the reserve.
func (a *Account) Hold(n int64, awaited bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	more := Sums{Held: n}
	held := a.sums.Held + n
	if a.closed {
		return false
	}
	if held <= a.sums.Promised {
		a.sums.Held = held
		return true
	}
	if held <= a.sums.Promised+a.terms.Early && a.tryAdd(more) {
		return true
	}
	return awaited && a.tryReserve(more)
}

// HoldBeyond adds n bytes of content, even if the pool has run out. If that would exceed the
// promises by more than beyond bytes, it changes nothing and returns false.
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

// Borrow adds n bytes that no promise covers, if the pool can spare them. If reserve is set, they
// may come from the reserve, which must then have room for them beside the awaited chunk.
func (a *Account) Borrow(n int64, reserve bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	more := Sums{Borrowed: n}
	return !a.closed && (a.tryAdd(more) || reserve && a.tryReserve(more))
}

// Promise adds n bytes of credit, if the pool can spare them.
func (a *Account) Promise(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.closed && a.tryAdd(Sums{Promised: n})
}

// MustHold adds n bytes of content, regardless of the limits. Use it only for small amounts
// that are limited elsewhere.
func (a *Account) MustHold(n int64) { a.add(Sums{Held: n}) }

// Drop removes n bytes of content that we no longer hold.
func (a *Account) Drop(n int64) { a.add(Sums{Held: -n}) }

// Withdraw takes back n bytes of credit.
func (a *Account) Withdraw(n int64) { a.add(Sums{Promised: -n}) }

// add adds to the sums, regardless of the limits.
func (a *Account) add(more Sums) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sums = a.sums.plus(more)
	a.settle()
}

// MustBorrow adds n bytes that no promise covers, regardless of the limits. They always come
// from the pool and never from the reserve.
func (a *Account) MustBorrow(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sums.Borrowed += n
	if !a.closed {
		// settle alone would take the bytes from the reserve first.
		a.setCharge(a.charged + n)
	}
	a.settle()
}

// Repay returns n borrowed bytes straight to the pool. Use Return for bytes that may have come out
// of the reserve, because the reserve wouldn't get them back.
func (a *Account) Repay(n int64) { a.MustBorrow(-n) }

// Return returns n bytes that were borrowed with reserve set. They refill the reserve first, and
// only the rest goes back to the pool.
func (a *Account) Return(n int64) { a.add(Sums{Borrowed: -n}) }

// tryReserve adds to the sums without charging the pool, if the reserve has enough left. The
// caller holds mu.
func (a *Account) tryReserve(more Sums) bool {
	after := a.sums.plus(more)
	if after.minCharge() > a.charged {
		return false
	}
	a.sums = after
	return true
}

// tryAdd adds to the sums and charges the pool, including any bytes needed to fill the reserve.
// If the pool can't spare that much, nothing changes. The caller holds mu.
func (a *Account) tryAdd(more Sums) bool {
	after := a.sums.plus(more)
	need := after.maxCharge(a.terms.GoOn) - a.charged
	if need > 0 && !a.pool.take(a.party, need, a.floorPart(a.charged+need)-a.floorPart(a.charged)) {
		return false
	}
	a.sums = after
	a.charged += need
	return true
}

// settle brings the charge back within its bounds after the sums have changed. Memory that
// was freed refills the reserve first, and only the rest returns to the pool. The caller holds
// mu.
func (a *Account) settle() {
	if a.closed {
		return
	}
	a.setCharge(min(max(a.charged, a.sums.minCharge()), a.sums.maxCharge(a.terms.GoOn)))
}

// Close returns the whole charge to the pool, even if some memory is still held. That memory
// is freed along with its transfers.
func (a *Account) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.setCharge(0)
}
