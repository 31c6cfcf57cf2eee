package stream

import "sync"

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
// was promised to it, whichever is more. It is safe from any goroutine, and taken after all other locks.
type account struct {
	world *budget
	floor int64 // of charged: what stands to every connection while the budget has it
	early int64 // bytes that may be held beyond what was promised

	mu       sync.Mutex
	held     int64
	promised int64
	charged  int64
	closed   bool
}

func newAccount(world *budget, config *Config) *account {
	early := heldBytes(config.early()) + allocated(sliceRounding)
	return &account{world: world, floor: early + heldBytes(minPending), early: early}
}

// heldBytes is what so many bytes of parts take at the most: what the allocator adds, the blocks' own bytes, and a block
// that is not full.
func heldBytes(n int64) int64 { return n + n/4 + 2*blockBytes }

// allocated is what n bytes of heap take at the most: from 64 bytes on the runtime's size classes are 3/16 apart or less (4,097
// bytes take 4,864), below it 16 bytes, and what is larger than 32 KiB is whole pages of 8 KiB.
func allocated(n int64) int64 {
	const largest, page = 32 << 10, 8 << 10
	if n > largest {
		return (n + page - 1) / page * page
	}
	return min(n+n*3/16+16, largest)
}

// hold notes n more bytes of memory. It is false, and notes nothing, when they are beyond what was promised and early,
// or when the budget has not got them.
func (a *account) hold(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.held+n > a.promised+a.early {
		return false
	}
	return a.change(n, 0)
}

// must notes n more bytes of memory which have to be held, whatever the limits are: little, and bounded elsewhere.
func (a *account) must(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held += n
	a.force()
}

// drop notes that n bytes are held no more.
func (a *account) drop(n int64) { a.must(-n) }

// promise notes credit for n bytes, if the budget has them.
func (a *account) promise(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.closed && a.change(0, n)
}

// withdraw takes back a promise.
func (a *account) withdraw(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.promised -= n
	a.force()
}

// borrow notes n bytes that are held beside all promises, if the budget has them or they have to be there.
func (a *account) borrow(n int64, must bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !must {
		return !a.closed && a.change(n, n)
	}
	a.held, a.promised = a.held+n, a.promised+n
	a.force()
	return true
}

// repay notes that n borrowed bytes are held no more.
func (a *account) repay(n int64) { a.borrow(-n, true) }

// change charges the budget for so many more bytes, all or nothing. The lock is held.
func (a *account) change(held, promised int64) bool {
	need := max(a.held+held, a.promised+promised) - a.charged
	if need > 0 && !a.world.take(need, min(need, max(0, a.floor-a.charged))) {
		return false
	}
	a.held, a.promised = a.held+held, a.promised+promised
	a.charged += max(need, 0)
	return true
}

// force charges the budget for what there is. The lock is held.
func (a *account) force() {
	if a.closed {
		return
	}
	due := max(a.held, a.promised)
	a.world.give(a.charged - due)
	a.charged = due
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
