package stream

import (
	"fmt"
	"io"
	"sync"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/crew"
)

const (
	// mostAhead is how much content a transfer reads at most before the tick takes it: 31 MB/s at 60 ticks a second.
	mostAhead = 512 << 10
	// leastAhead is with how much it begins. It doubles when a tick takes all of it, so that of many transfers over slow paths each holds
	// little.
	leastAhead = 128 << 10
)

// source yields a transfer's content. Only the reader's goroutine uses it.
type source interface {
	// fill adds content to the empty block b and returns io.EOF, with or without content, when there is no more. An
	// array's source stops before the element stopAt, unless that is negative.
	fill(b *block, stopAt int64) error
	// callee names the function of the game that fill called last, for an error if it has panicked.
	callee() string
	// lent reports whether fill reads memory that is the caller's again once the transfer has ended.
	lent() bool
}

// reader reads and hashes a source on a goroutine of its own, ahead of the tick that takes the blocks. Only that
// goroutine waits for the source.
type reader struct {
	// Set by newReader. Only the goroutine uses the source.
	source source
	hash   Algorithm
	part   int                             // bytes of a full part
	whole  int64                           // bytes of the content, as the header says; not above 0 = nobody knows
	wake   func()                          // called when a tick found nothing and now there is something
	guard  func(fn func()) (returned bool) // runs fn, which calls functions of the game; false if it panicked
	turns  *crew.Turns                     // of hashing what nothing paces; nil = it takes none

	// Safe from any goroutine.
	held    *budget.Holding // charged with the blocks that were read and not freed
	changed bell.Bell       // waitToRead must check again

	// mu guards all fields below. These hold what the goroutine has read, for the tick.
	mu     sync.Mutex
	ready  []*block // in order
	bytes  int      // of content in ready
	ahead  int      // bytes that may be in ready
	most   int      // bytes that were in ready since ticks last took all of it
	wanted bool     // a tick found nothing: the next block wakes the world

	// What the world's goroutine has said.
	limit   int64 // content below may leave, as the tick last said; 0 until the header has left
	waits   bool  // the goroutine must not read before resume
	from    int64 // content below this byte is hashed and not sent
	fromAt  int64 // the element at from, in an array
	stopped bool  // the goroutine must end

	// The goroutine.
	started bool
	running bool   // it has not ended
	exited  func() // called when it has ended; nil = nobody waits for that

	// How the source ended, once finished.
	finished bool
	total    end // set unless err is; without the id
	err      error
}

func newReader(s source, hash Algorithm, part int, waits bool, on *budget.StockAccount, wake func(), guard func(fn func()) bool) *reader {
	r := &reader{source: s, hash: hash, part: part, waits: waits, wake: wake, guard: guard, ahead: leastAhead, changed: bell.New()}
	r.held = budget.NewHolding(on, r.changed.Ring)
	return r
}

// start starts the goroutine, once, unless the reader was stopped.
func (r *reader) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started && !r.stopped {
		r.started, r.running = true, true
		go r.run()
	}
}

// run is the goroutine: it reads until the source ends or stop is called.
func (r *reader) run() {
	defer r.exit()
	if !r.guard(r.read) {
		r.finish(0, 0, nil, fmt.Errorf("%w: %s", ErrPanicked, r.source.callee()))
	}
}

// exit notes that the goroutine ends.
func (r *reader) exit() {
	r.mu.Lock()
	r.running = false
	exited := r.exited
	r.mu.Unlock()
	if exited != nil {
		exited()
	}
}

// whenUnused calls fn when the goroutine, which was stopped, no longer uses what the caller has lent. That is at once for a blob, which has
// lent nothing, even while a Read is in progress.
func (r *reader) whenUnused(fn func()) {
	r.mu.Lock()
	waits := r.running && r.source.lent()
	if waits {
		r.exited = fn
	}
	r.mu.Unlock()
	if !waits {
		fn()
	}
}

// read hashes the content and publishes it in blocks, until the source ends or the reader is stopped.
func (r *reader) read() {
	digest := r.hash.New()
	var offset, index int64
	for r.waitToRead(offset) {
		b := fullBlock(r.part)
		b.offset, b.index = offset, index
		stopAt := r.stopAt(b)
		err := r.fill(b, stopAt, digest)
		offset, index = b.end(), b.index+int64(b.count)
		if index == stopAt && err == nil {
			err = r.checkAligned(offset)
		}
		if b.size() == 0 || !r.publish(b) {
			b.Free()
		}
		if err != nil {
			r.finish(offset, index, digest, err)
			return
		}
	}
}

// fill fills a block from the source and hashes it. An array's elements are encoded in the turn, too; a blob's Read may wait, and must not
// keep others from their turns.
func (r *reader) fill(b *block, stopAt int64, digest *Hasher) (err error) {
	if r.source.lent() {
		r.inTurn(b.offset, func() {
			err = r.source.fill(b, stopAt)
			digest.Write(b.payload())
		})
		return err
	}
	err = r.source.fill(b, stopAt)
	r.inTurn(b.offset, func() { digest.Write(b.payload()) })
	return err
}

// inTurn runs fn, for content at an offset. Where nothing paces this goroutine, fn waits for its turn, as [writer.inReplay] does. It does
// not run once the reader was stopped.
func (r *reader) inTurn(offset int64, fn func()) {
	if r.turns == nil || r.paced(offset) {
		fn()
		return
	}
	for !r.isStopped() && !r.turns.Do(r.changed, fn) { // waitToRead checks what else has changed
	}
}

// paced reports whether the goroutine reads the content at an offset only once content before it has left. The first leastAhead bytes wait
// for nothing: when hundreds of transfers start together, all of them are read and hashed at once. What the receiver has does not leave: an
// answer of a few bytes has all of it read and hashed.
func (r *reader) paced(offset int64) bool { return offset >= leastAhead && !r.receiverHas(offset) }

// receiverHas reports whether the receiver has the content at an offset, so that it is not sent.
func (r *reader) receiverHas(offset int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return offset < r.from
}

func (r *reader) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// waitToRead waits until the goroutine may read at offset; it is false if the reader was stopped. The goroutine holds no block meanwhile.
func (r *reader) waitToRead(offset int64) bool {
	for r.mustWait(offset) {
		<-r.changed
	}
	return !r.isStopped()
}

// mustWait reports whether nothing may be read at offset now: before resume, when enough was read ahead, or when the stock is short.
func (r *reader) mustWait(offset int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.stopped && (r.waits || r.bytes >= r.ahead || !r.held.Room(r.mayLeave(offset)))
}

// mayLeave reports whether the block at offset may leave at once, as far as the receiver's credit goes. The caller holds the lock.
func (r *reader) mayLeave(offset int64) bool {
	ends := offset + int64(r.part)
	if r.whole > 0 {
		ends = min(ends, r.whole)
	}
	return offset < r.from || ends <= r.limit
}

// stopAt returns the element before which fill must stop, because the receiver goes on there; -1 when b does not begin before it.
func (r *reader) stopAt(b *block) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.index < r.fromAt {
		return r.fromAt
	}
	return -1
}

// checkAligned fails when the elements before the one at which to go on do not end at the byte that the receiver named: it has
// other content under the key.
func (r *reader) checkAligned(offset int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if offset == r.from {
		return nil
	}
	return fmt.Errorf("%w: the first %d elements take %d bytes here, the receiver has %d stored", ErrDigest, r.fromAt, offset, r.from)
}

// size returns how many bytes the source had, once it has ended well.
func (r *reader) size() (bytes int64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total.size, r.finished && r.err == nil
}

// publish offers b to the tick and reports whether it keeps b's memory. Small blocks are copied into the last one, so
// that a source of small reads does not become many small parts; one that grew for a large element stays as it is.
func (r *reader) publish(b *block) (kept bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || b.end() <= r.from {
		return false
	}
	b.trim(r.from)
	r.bytes += b.size()
	r.most = max(r.most, r.bytes)
	defer r.wakeTick()
	if n := len(r.ready); n > 0 && r.ready[n-1].size()+b.size() <= r.part {
		r.ready[n-1].append(b.payload())
		r.ready[n-1].count += b.count
		return false
	}
	b.chargeTo(r.held)
	r.ready = append(r.ready, b)
	return true
}

// wakeTick wakes the world if a tick found nothing. The caller holds the lock.
func (r *reader) wakeTick() {
	if r.wanted {
		r.wanted = false
		r.wake()
	}
}

// finish notes how the source ended: all was read when err is io.EOF.
func (r *reader) finish(size, count int64, digest *Hasher, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished = true
	if err != io.EOF {
		r.err = err
	} else {
		r.total.size, r.total.count = size, count
		sum := digest.Digest().sum
		r.total.sum = sum[:r.hash.size()]
		r.checkTotal()
	}
	r.wanted = true
	r.wakeTick()
}

// checkTotal sets err when the source ended before the byte at which to go on. The caller holds the lock.
func (r *reader) checkTotal() {
	if r.finished && r.err == nil && r.total.size < r.from {
		r.err = fmt.Errorf("%w: the source ended at byte %d, the receiver has %d stored", ErrDigest, r.total.size, r.from)
	}
}

// resume says, on the world's goroutine, that the receiver goes on at byte from, where element fromAt begins.
func (r *reader) resume(from, fromAt int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits, r.from, r.fromAt = false, from, fromAt
	r.checkTotal()
	r.ready = trimAll(r.ready, from)
	r.bytes = 0
	for _, b := range r.ready {
		r.bytes += b.size()
	}
	r.changed.Ring()
}

// take returns the next block if it lies below limit, else nil; the caller owns it. A blob's first block is cut at the
// limit, so that something leaves with the header. pathFull says that the path has yet to take most of what was given to it before.
func (r *reader) take(limit int64, pathFull bool) *block {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.hasLocked(limit) {
		return nil
	}
	b := r.ready[0]
	if b.end() > limit {
		b = b.cut(limit)
	} else {
		r.ready[0] = nil
		r.ready = r.ready[1:]
	}
	r.bytes -= b.size()
	r.growAhead(pathFull)
	r.changed.Ring()
	return b
}

// growAhead reads further ahead when ticks have taken all of a full ready before the goroutine could fill it again, unless the path has
// enough to do meanwhile. The caller holds the lock.
func (r *reader) growAhead(pathFull bool) {
	if r.bytes > 0 {
		return
	}
	if r.most >= r.ahead && !pathFull {
		r.ahead = min(2*r.ahead, mostAhead)
	}
	r.most = 0
}

// has reports whether take would return a block. If none was read, the next one wakes the world.
func (r *reader) has(limit int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit > r.limit {
		r.limit = limit
		r.changed.Ring()
	}
	return r.hasLocked(limit)
}

func (r *reader) hasLocked(limit int64) bool {
	if len(r.ready) == 0 {
		r.wanted = !r.finished
		return false
	}
	b := r.ready[0]
	return b.end() <= limit || b.offset == 0 && b.count == 0 && limit > 0
}

// result returns the size and digest of the whole once all of it was taken, or why it could not be read.
func (r *reader) result() (total end, err error, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total, r.err, r.finished && (r.err != nil || len(r.ready) == 0)
}

// stop ends the reader without waiting for it.
func (r *reader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for _, b := range r.ready {
		b.Free()
	}
	r.ready, r.bytes = nil, 0
	r.changed.Ring()
}
