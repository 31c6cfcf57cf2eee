package budget

import "sync"

// Pool is the memory of a world for the transfers that its peers send. Half of it is kept, so that whoever
// comes late, or holds little, has room for a small transfer beside many that take all they can get. It is safe from any
// goroutine.
type Pool struct {
	mu   sync.Mutex
	left int64
	kept int64
}

// NewPool returns a pool of so many bytes.
func NewPool(bytes int64) *Pool { return &Pool{left: bytes, kept: bytes / 2} }

// take takes n bytes, all or nothing. Of them small may use what is kept; the rest takes at most half of what is free
// beside that, so that no connection takes it all.
func (p *Pool) take(n, small int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > p.left || n > small && n-small > (p.left-small-p.kept)/2 {
		return false
	}
	p.left -= n
	return true
}

// give returns n bytes; negative ones are taken whatever is left.
func (p *Pool) give(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left += n
}

// Free returns how many bytes are left.
func (p *Pool) Free() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}

// Terms are what an account has beside what it is charged for, in bytes.
type Terms struct {
	Floor int64 // a charge up to this may use the part of the pool that is kept
	Early int64 // may be held beyond what was promised
	GoOn  int64 // room for what is waited for, see [Account]
}

// Account is what one connection takes of its world's pool: memory that it holds, by its real size, or the credit that
// was promised to it, whichever is more, and room to go on. It is safe from any goroutine, and its lock is taken after all
// others but the pool's.
//
// The room is what keeps a full pool from stopping what has begun. Chunks come in order, so one that finds no memory holds
// up all behind it, whose credit is what fills the pool. Whatever else a connection holds or is promised therefore leaves
// Terms.GoOn bytes free, for the chunk that is waited for: it comes in, is handed over, and its room is there for the next.
type Account struct {
	world *Pool
	terms Terms

	mu      sync.Mutex
	sums    Sums
	charged int64 // from sums.least to sums.most
	closed  bool
}

// NewAccount returns an account of a connection that holds nothing yet.
func NewAccount(world *Pool, terms Terms) *Account { return &Account{world: world, terms: terms} }

// Sums is what an account is charged for, in bytes.
type Sums struct {
	Held     int64
	Promised int64
	Borrowed int64 // held beside all promises
}

func (s Sums) plus(more Sums) Sums {
	return Sums{s.Held + more.Held, s.Promised + more.Promised, s.Borrowed + more.Borrowed}
}

// least is the charge while the room to go on is in use.
func (s Sums) least() int64 { return max(s.Held, s.Promised) + s.Borrowed }

// most is the charge with all of the room. Who holds nothing waits for nothing.
func (s Sums) most(goOn int64) int64 {
	if s.Held == 0 && s.Promised == 0 {
		return s.Borrowed
	}
	return s.least() + goOn
}

// Charge returns what the account is charged for, and how much that is of the pool.
func (a *Account) Charge() (Sums, int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sums, a.charged
}

// Hold notes n more bytes of memory. It is false, and notes nothing, when they are beyond what was promised and Terms.Early,
// or when the pool has not got them. What is within the promise it has: that is charged. A chunk that is waited for may use
// the room to go on.
func (a *Account) Hold(n int64, awaited bool) bool {
	return a.hold(n) || awaited && a.goOn(Sums{Held: n})
}

func (a *Account) hold(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed || a.sums.Held+n > a.sums.Promised+a.terms.Early:
		return false
	case a.sums.Held+n <= a.sums.Promised:
		a.sums.Held += n
		return true
	}
	return a.change(Sums{Held: n})
}

// Borrow notes n bytes that are held beside all promises, if the pool has them. Records without which no awaited chunk comes
// in may use the room to go on.
func (a *Account) Borrow(n int64, awaited bool) bool {
	return a.borrow(n) || awaited && a.goOn(Sums{Borrowed: n})
}

// goOn notes what the room has place for.
func (a *Account) goOn(more Sums) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	after := a.sums.plus(more)
	if a.closed || after.least() > a.charged {
		return false
	}
	a.sums = after
	return true
}

// MustHold notes n more bytes of memory which have to be held, whatever the limits are: little, and bounded elsewhere.
func (a *Account) MustHold(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sums.Held += n
	a.settle()
}

// Drop notes that n bytes are held no more.
func (a *Account) Drop(n int64) { a.MustHold(-n) }

// Promise notes credit for n bytes, if the pool has them.
func (a *Account) Promise(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.closed && a.change(Sums{Promised: n})
}

// Withdraw takes back a promise.
func (a *Account) Withdraw(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sums.Promised -= n
	a.settle()
}

func (a *Account) borrow(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.closed && a.change(Sums{Borrowed: n})
}

// MustBorrow notes n bytes that are held beside all promises and have to be there. They take nothing of the room to go on.
func (a *Account) MustBorrow(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sums.Borrowed += n
	if !a.closed {
		a.world.give(-n)
		a.charged += n
	}
	a.settle()
}

// Repay notes that n borrowed bytes are held no more.
func (a *Account) Repay(n int64) { a.MustBorrow(-n) }

// change charges the pool for so much more, all of it and the room to go on, or nothing. The lock is held.
func (a *Account) change(more Sums) bool {
	after := a.sums.plus(more)
	need := after.most(a.terms.GoOn) - a.charged
	if need > 0 && !a.world.take(need, min(need, max(0, a.terms.Floor-a.charged))) {
		return false
	}
	a.sums = after
	a.charged += max(need, 0)
	return true
}

// settle charges the pool for what there is. What is given up fills the room to go on first. The lock is held.
func (a *Account) settle() {
	if a.closed {
		return
	}
	charged := min(max(a.charged, a.sums.least()), a.sums.most(a.terms.GoOn))
	a.world.give(a.charged - charged)
	a.charged = charged
}

// Close returns all to the pool: what is still held goes with its transfers.
func (a *Account) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.world.give(a.charged)
	a.charged = 0
}
