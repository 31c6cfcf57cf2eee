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
	// maxReadAhead is the maximum content that a transfer may read before the tick takes it. It
	// allows 31 MB/s at 60 ticks a second.
	maxReadAhead = 512 << 10
	// firstReadAhead is the content that it may read ahead at first. This doubles when a tick
	// takes all of it. Many transfers over slow paths therefore hold little each.
	firstReadAhead = 128 << 10
)

// A source provides a transfer's content. It is used by the reader's goroutine only.
type source interface {
	// fill adds content to the empty block b. At the end of the source it returns io.EOF, with
	// or without content. An array's source stops before element stopAt, unless stopAt is
	// negative.
	fill(b *block, stopAt int64) error
	// callee names the function of the game that fill called last, for the error after that
	// function panicked.
	callee() string
	// lent reports whether fill reads memory that the caller may change once the transfer has
	// ended.
	lent() bool
}

// A reader reads and hashes a source on a goroutine of its own, ahead of the tick that takes
// the blocks. Only that goroutine waits for the source.
type reader struct {
	// Set by newReader. Only the goroutine uses source.
	source source
	hash   Algorithm
	part   int                             // payload of a full part, in bytes
	whole  int64                           // content size from the header; 0 or less if unknown
	wake   func()                          // called when there is content, after a tick found none
	guard  func(fn func()) (returned bool) // runs fn, which calls functions of the game; returns false if one panicked
	turns  *crew.Turns                     // for hashing that nothing paces; nil if it needs no turn

	// Safe for concurrent use.
	held    *budget.Holding // charged for blocks that were read and not freed
	changed bell.Bell       // rung when waitToRead must check again

	// mu guards all fields below. This group is what the goroutine has read for the tick.
	mu     sync.Mutex
	ready  []*block // in order
	bytes  int      // bytes of content in ready
	ahead  int      // limit of bytes
	peak   int      // maximum of bytes since ticks last took all of ready
	wanted bool     // a tick found nothing, so the next block wakes the world

	// Set on the world's goroutine.
	limit        int64 // end of the content that may be sent, as of the last tick; 0 until the header is sent
	awaitsAnswer bool  // the goroutine must not read before resume is called
	from         int64 // content before this byte is hashed but not sent
	fromAt       int64 // in an array, the element that begins at from
	stopped      bool  // the goroutine must end

	// State of the goroutine.
	started bool
	running bool   // started, and has not ended
	exited  func() // called when the goroutine ends; nil if nothing waits for its end

	// How the source ended, if finished.
	finished bool
	total    end // set unless err is; its id is not set
	err      error
}

func newReader(
	s source, hash Algorithm, part int, awaitsAnswer bool, on *budget.StockAccount,
	wake func(), guard func(fn func()) bool,
) *reader {
	r := &reader{
		source: s, hash: hash, part: part, awaitsAnswer: awaitsAnswer, wake: wake, guard: guard,
		ahead: firstReadAhead, changed: bell.New(),
	}
	r.held = budget.NewHolding(on, r.changed.Ring)
	return r
}

// start starts the goroutine, once, unless the reader was stopped.
func (r *reader) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started && !r.stopped {
		r.started = true
		r.running = true
		go r.run()
	}
}

// run runs on the goroutine. It reads until the source ends or stop is called.
func (r *reader) run() {
	defer r.exit()
	if !r.guard(r.read) {
		r.finish(0, 0, nil, fmt.Errorf("%w: %s", ErrPanicked, r.source.callee()))
	}
}

// exit is called when the goroutine ends.
func (r *reader) exit() {
	r.mu.Lock()
	r.running = false
	exited := r.exited
	r.mu.Unlock()
	if exited != nil {
		exited()
	}
}

// whenUnused calls fn once the goroutine no longer uses memory that the caller has lent. The
// reader must have been stopped. The source of a blob uses no such memory, so fn is called at
// once, even while a Read is in progress.
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

// read hashes the content and publishes it in blocks. It returns when the source ends or the
// reader is stopped.
func (r *reader) read() {
	digest := r.hash.New()
	var offset, index int64
	for r.waitToRead(offset) {
		b := newPageBlock(r.part)
		b.offset = offset
		b.index = index
		stopAt := r.stopAt(b)
		err := r.fill(b, stopAt, digest)
		offset = b.end()
		index = b.index + int64(b.count)
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

// fill fills a block from the source and hashes it. The elements of an array are encoded in
// the same turn as they are hashed. A blob's Read is outside the turn, because it may wait and
// would delay the turns of others.
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

// inTurn runs fn, which handles content at the given offset. If nothing paces this goroutine,
// fn waits for its turn, as in [writer.inReplay]. inTurn does not run fn if the reader was
// stopped.
func (r *reader) inTurn(offset int64, fn func()) {
	if r.turns == nil || r.paced(offset) {
		fn()
		return
	}
	for !r.isStopped() && !r.turns.Do(r.changed, fn) { // waitToRead handles other changes
	}
}

// paced reports whether the goroutine can read the content at an offset only after earlier
// content was sent.
//
// The first firstReadAhead bytes are not paced. If hundreds of transfers start together, all of
// these bytes are read and hashed at once. Nor is content paced that the receiver has, because
// it is not sent: an answer of a few bytes makes this end read and hash all of it.
func (r *reader) paced(offset int64) bool { return offset >= firstReadAhead && !r.receiverHas(offset) }

// receiverHas reports whether the receiver has the content at an offset, so it need not be
// sent.
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

// waitToRead waits until the goroutine may read at offset. It returns false if the reader was
// stopped. The goroutine holds no block while it waits.
func (r *reader) waitToRead(offset int64) bool {
	for r.mustWait(offset) {
		<-r.changed
	}
	return !r.isStopped()
}

// mustWait reports whether the goroutine must not read at offset now. It must not before
// resume, if it has read enough ahead, or if the stock is short.
func (r *reader) mustWait(offset int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.stopped && (r.awaitsAnswer || r.bytes >= r.ahead || !r.held.Room(r.mayLeave(offset)))
}

// mayLeave reports whether the receiver's credit allows the block at offset to be sent at
// once. The caller holds mu.
func (r *reader) mayLeave(offset int64) bool {
	ends := offset + int64(r.part)
	if r.whole > 0 {
		ends = min(ends, r.whole)
	}
	return offset < r.from || ends <= r.limit
}

// stopAt returns the element before which fill must stop because the receiver continues there.
// It returns -1 if b does not begin before that element.
func (r *reader) stopAt(b *block) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.index < r.fromAt {
		return r.fromAt
	}
	return -1
}

// checkAligned returns an error if the elements before the resumed one do not end at the byte
// that the receiver named. In that case, the receiver has other content under the key.
func (r *reader) checkAligned(offset int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if offset == r.from {
		return nil
	}
	return fmt.Errorf("%w: the first %d elements take %d bytes here, the receiver has %d stored",
		ErrDigest, r.fromAt, offset, r.from)
}

// size returns the number of bytes that the source had. known is false until the source has
// ended without an error.
func (r *reader) size() (bytes int64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total.size, r.finished && r.err == nil
}

// publish passes b to the tick and reports whether it keeps b's memory. It copies a small
// block into the last one if it fits, so small reads don't become many small parts. A block
// that grew for a large element stays as it is.
func (r *reader) publish(b *block) (kept bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || b.end() <= r.from {
		return false
	}
	b.trimFront(r.from)
	r.bytes += b.size()
	r.peak = max(r.peak, r.bytes)
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

// wakeTick wakes the world if a tick found nothing. The caller holds mu.
func (r *reader) wakeTick() {
	if r.wanted {
		r.wanted = false
		r.wake()
	}
}

// finish records how the source ended. err is io.EOF if everything was read.
func (r *reader) finish(size, count int64, digest *Hasher, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished = true
	if err != io.EOF {
		r.err = err
	} else {
		r.total.size = size
		r.total.count = count
		sum := digest.Digest().sum
		r.total.sum = sum[:r.hash.size()]
		r.checkTotal()
	}
	r.wanted = true
	r.wakeTick()
}

// checkTotal sets err if the source ended before the byte at which the receiver continues. The
// caller holds mu.
func (r *reader) checkTotal() {
	if r.finished && r.err == nil && r.total.size < r.from {
		r.err = fmt.Errorf("%w: the source ended at byte %d, the receiver has %d stored",
			ErrDigest, r.total.size, r.from)
	}
}

// resume is called on the world's goroutine with the receiver's answer. The receiver continues
// at byte from, where element fromAt begins.
func (r *reader) resume(from, fromAt int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.awaitsAnswer = false
	r.from = from
	r.fromAt = fromAt
	r.checkTotal()
	r.ready = trimAll(r.ready, from)
	r.bytes = 0
	for _, b := range r.ready {
		r.bytes += b.size()
	}
	r.changed.Ring()
}

// take returns the next block if it ends at or below limit, and otherwise nil. The caller owns
// the block. A blob's first block is cut at the limit, so something can be sent with the
// header. pathFull means that most of what was sent before is still queued.
func (r *reader) take(limit int64, pathFull bool) *block {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.hasLocked(limit) {
		return nil
	}
	b := r.ready[0]
	if b.end() > limit {
		b = b.cutFront(limit)
	} else {
		r.ready[0] = nil
		r.ready = r.ready[1:]
	}
	r.bytes -= b.size()
	r.growAhead(pathFull)
	r.changed.Ring()
	return b
}

// growAhead raises ahead if ready was full and ticks emptied it before the goroutine could
// refill it. It does not if the path has enough to do. The caller holds mu.
func (r *reader) growAhead(pathFull bool) {
	if r.bytes > 0 {
		return
	}
	if r.peak >= r.ahead && !pathFull {
		r.ahead = min(2*r.ahead, maxReadAhead)
	}
	r.peak = 0
}

// has reports whether take would return a block. If nothing was read, the next block wakes the
// world.
func (r *reader) has(limit int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit > r.limit {
		r.limit = limit
		r.changed.Ring()
	}
	return r.hasLocked(limit)
}

// hasLocked is has for a caller that holds mu.
func (r *reader) hasLocked(limit int64) bool {
	if len(r.ready) == 0 {
		r.wanted = !r.finished
		return false
	}
	b := r.ready[0]
	return b.end() <= limit || b.offset == 0 && b.count == 0 && limit > 0
}

// result returns the size and digest of the content once all of it was taken, or the error of
// the source.
func (r *reader) result() (total end, err error, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total, r.err, r.finished && (r.err != nil || len(r.ready) == 0)
}

// stop ends the reader without waiting for the goroutine.
func (r *reader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for _, b := range r.ready {
		b.Free()
	}
	r.ready = nil
	r.bytes = 0
	r.changed.Ring()
}
