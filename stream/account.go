package stream

import (
	"sync"

	"github.com/quivernet/quiver/internal/slices"
)

// budget is the memory of a world for what its peers make it hold, Config.MaxMemory. Half of it is kept, so that whoever
// comes late, or holds little, has room for a small transfer beside many that take all they can get. It is safe from any
// goroutine.
type budget struct {
	mu   sync.Mutex
	left int64
	kept int64
}

func newBudget(bytes int64) *budget { return &budget{left: bytes, kept: bytes / 2} }

// take takes n bytes, all or nothing. Of them small may use what is kept; the rest takes at most half of what is free
// beside that, so that no connection takes it all.
func (b *budget) take(n, small int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left || n > small && n-small > (b.left-small-b.kept)/2 {
		return false
	}
	b.left -= n
	return true
}

// give returns n bytes; negative ones are taken whatever is left.
func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

// free is how many bytes are left.
func (b *budget) free() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left
}

// account is what one connection takes of its world's budget: memory that it holds, by its real size, or the credit that
// was promised to it, whichever is more, and room to go on. It is safe from any goroutine, and taken after all other locks.
//
// The room is what keeps a full budget from stopping what has begun. Chunks come in order, so one that finds no memory holds
// up all behind it, whose credit is what fills the budget. Whatever else a connection holds or is promised therefore leaves
// goOnBytes free, for the chunk that is waited for: it comes in, is handed over, and its room is there for the next.
type account struct {
	world *budget
	floor int64 // of charged: what stands to every connection while the budget has it
	early int64 // bytes that may be held beyond what was promised

	mu sync.Mutex
	sums
	charged int64 // from sums.least to sums.most
	closed  bool
}

// sums is what an account is charged for.
type sums struct {
	held     int64
	promised int64
	borrowed int64 // held beside all promises
}

func (s sums) plus(more sums) sums {
	return sums{s.held + more.held, s.promised + more.promised, s.borrowed + more.borrowed}
}

// least is the charge while the room to go on is in use.
func (s sums) least() int64 { return max(s.held, s.promised) + s.borrowed }

// most is the charge with all of the room. Who holds nothing waits for nothing.
func (s sums) most() int64 {
	if s.held == 0 && s.promised == 0 {
		return s.borrowed
	}
	return s.least() + goOnBytes
}

const (
	// awaitedSlices has the largest part that a sender makes.
	awaitedSlices = (maxPartHeader + maxElementBytes + slices.Size - 1) / slices.Size
	// goOnBytes is the room for a chunk that is waited for, and for the records before it, in whole pages.
	goOnBytes = (awaitedSlices*slices.Size+8191)/8192*8192 + slices.ReceiverBytes
)

func newAccount(world *budget, config *Config) *account {
	early := heldBytes(config.early()) + slices.Allocated(sliceRounding)
	return &account{world: world, floor: early + heldBytes(minPending) + slices.ReceiverBytes + goOnBytes, early: early}
}

// heldBytes is what so many bytes of parts take at the most: what the allocator adds, the blocks' own bytes, and a block
// that is not full.
func heldBytes(n int64) int64 { return n + n/4 + 2*blockBytes }

// hold notes n more bytes of memory. It is false, and notes nothing, when they are beyond what was promised and early,
// or when the budget has not got them. What is within the promise it has: that is charged.
func (a *account) hold(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed || a.held+n > a.promised+a.early:
		return false
	case a.held+n <= a.promised:
		a.held += n
		return true
	}
	return a.change(sums{held: n})
}

// Hold is hold for a chunk, which may use the room to go on when it is waited for.
func (a *account) Hold(n int64, awaited bool) bool {
	return a.hold(n) || awaited && a.goOn(sums{held: n})
}

// Borrow is borrow for a machine of slices, which may use the room to go on for records without which no chunk comes in.
func (a *account) Borrow(n int64, awaited bool) bool {
	return a.borrow(n) || awaited && a.goOn(sums{borrowed: n})
}

// goOn notes what the room has place for.
func (a *account) goOn(more sums) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	after := a.plus(more)
	if a.closed || after.least() > a.charged {
		return false
	}
	a.sums = after
	return true
}

// must notes n more bytes of memory which have to be held, whatever the limits are: little, and bounded elsewhere.
func (a *account) must(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held += n
	a.settle()
}

// Drop notes that n bytes are held no more.
func (a *account) Drop(n int64) { a.must(-n) }

// promise notes credit for n bytes, if the budget has them.
func (a *account) promise(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.closed && a.change(sums{promised: n})
}

// withdraw takes back a promise.
func (a *account) withdraw(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.promised -= n
	a.settle()
}

// borrow notes n bytes that are held beside all promises, if the budget has them.
func (a *account) borrow(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.closed && a.change(sums{borrowed: n})
}

// mustBorrow notes n bytes that are held beside all promises and have to be there. They take nothing of the room to go on.
func (a *account) mustBorrow(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.borrowed += n
	if !a.closed {
		a.world.give(-n)
		a.charged += n
	}
	a.settle()
}

// Repay notes that n borrowed bytes are held no more.
func (a *account) Repay(n int64) { a.mustBorrow(-n) }

// change charges the budget for so much more, all of it and the room to go on, or nothing. The lock is held.
func (a *account) change(more sums) bool {
	after := a.plus(more)
	need := after.most() - a.charged
	if need > 0 && !a.world.take(need, min(need, max(0, a.floor-a.charged))) {
		return false
	}
	a.sums = after
	a.charged += max(need, 0)
	return true
}

// settle charges the budget for what there is. What is given up fills the room to go on first. The lock is held.
func (a *account) settle() {
	if a.closed {
		return
	}
	charged := min(max(a.charged, a.least()), a.most())
	a.world.give(a.charged - charged)
	a.charged = charged
}

// close returns all to the budget: what is still held goes with its transfers.
func (a *account) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.world.give(a.charged)
	a.charged = 0
}

// left is how much may be held now beside all promises.
func (a *account) left() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.promised + a.early - a.held
}
