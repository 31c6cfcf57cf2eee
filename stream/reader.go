package stream

import (
	"fmt"
	"io"
	"sync"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/crew"
)

// A source is where the content of a transfer comes from: an io.Reader or the elements of an
// array. Only the reader's goroutine uses it.
type source interface {
	// fill adds content to the empty block b. It returns io.EOF at the end of the source, with
	// or without content. The source of an array stops before element stopAt, unless stopAt is
	// negative.
	fill(b *block, stopAt int64) error
	// callee names the function of the game that fill called last. If that function panics, the
	// error contains its name.
	callee() string
	// borrows reports whether fill reads memory that the caller may change once the transfer
	// has ended.
	borrows() bool
}

// A readerConfig is what a reader needs to know about its transfer.
type readerConfig struct {
	source      source
	hash        Algorithm
	partSize    int   // payload of a full part, in bytes
	contentSize int64 // from the header; 0 or less if unknown

	account *budget.StockAccount // limits the memory of the blocks
	turns   *crew.Turns          // limits how many readers hash at once; nil if nothing does

	wake  func()                          // called when there is content after a tick found none
	guard func(fn func()) (returned bool) // runs fn, which calls the game; false if that panicked
}

// A reader reads the source of a transfer on a goroutine of its own, hashes what it reads, and
// keeps it in blocks until a tick takes them. The goroutine reads a little ahead of the ticks.
// Only the goroutine ever waits for the source, so ticks never do.
type reader struct {
	readerConfig // doesn't change; only the goroutine reads the source

	// Safe for concurrent use.
	held    *budget.Holding // charged for blocks that have been read and not yet freed
	changed bell.Bell       // rung when waitToRead must check again

	// mu guards everything below.
	mu            sync.Mutex
	ready         readQueue // what the goroutine has read for the ticks
	wakeOnContent bool      // a tick found nothing, so wake the world when there is something

	// Set on the world's goroutine, for the reader's goroutine.
	sendLimit    int64 // end of the content that may be sent; 0 until the header is sent
	awaitsAnswer bool  // don't read before resume is called
	resumeOffset int64 // content before this byte is hashed but not sent
	resumeIndex  int64 // in an array, the element that begins at resumeOffset
	stopped      bool  // the goroutine must end

	// State of the goroutine.
	started bool
	running bool   // started and not ended yet
	onExit  func() // called when the goroutine ends; nil if nobody waits for that

	// How the source ended. Not set until finished is.
	finished bool
	total    end // size and digest of the content, unless err is set; the id isn't set
	err      error
}

// newReader returns a reader that doesn't read until start is called and, if awaitsAnswer is
// set, resume.
func newReader(config readerConfig, awaitsAnswer bool) *reader {
	r := &reader{
		readerConfig: config,
		awaitsAnswer: awaitsAnswer,
		ready:        readQueue{limit: firstReadAhead},
		changed:      bell.New(),
	}
	r.held = budget.NewHolding(config.account, r.changed.Ring)
	return r
}

// start starts the goroutine. It's a no-op if the goroutine was started before, or after stop.
func (r *reader) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started && !r.stopped {
		r.started = true
		r.running = true
		go r.run()
	}
}

// run is the goroutine. It reads until the source ends or stop is called.
func (r *reader) run() {
	defer r.exit()
	if !r.guard(r.read) {
		r.finish(0, 0, nil, fmt.Errorf("%w: %s", ErrPanicked, r.source.callee()))
	}
}

// exit is called when the goroutine ends. If whenUnused is waiting for that, it calls the
// function that whenUnused was given.
func (r *reader) exit() {
	r.mu.Lock()
	r.running = false
	onExit := r.onExit
	r.mu.Unlock()
	if onExit != nil {
		onExit()
	}
}

// whenUnused calls fn as soon as the goroutine no longer uses memory that the caller has lent
// us. The reader must have been stopped before.
//
// A blob's source doesn't use such memory. For a blob, fn is therefore called at once, even if
// the goroutine is in a Read that takes long to return.
func (r *reader) whenUnused(fn func()) {
	r.mu.Lock()
	inUse := r.running && r.source.borrows()
	if inUse {
		r.onExit = fn
	}
	r.mu.Unlock()
	if !inUse {
		fn()
	}
}

// read reads the source block by block and publishes each block for the ticks. It returns when
// the source has ended or the reader is stopped.
func (r *reader) read() {
	digest := r.hash.New()
	var offset, index int64
	for r.waitToRead(offset) {
		b := newPageBlock(r.partSize)
		b.offset = offset
		b.index = index
		stopAt := r.stopAt(b)
		err := r.fill(b, stopAt, digest)
		offset = b.end()
		index = b.index + int64(b.count)
		if index == stopAt && err == nil {
			// This is the element at which the receiver resumes.
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

// fill fills a block from the source and hashes it, in turn with other readers.
func (r *reader) fill(b *block, stopAt int64, digest *Hasher) (err error) {
	if r.source.borrows() {
		// Encoding the elements of an array takes CPU time just as hashing them does.
		r.inTurn(b.offset, func() {
			err = r.source.fill(b, stopAt)
			digest.Write(b.payload())
		})
		return err
	}
	// The Read of a blob may block. Don't make other readers wait for it.
	err = r.source.fill(b, stopAt)
	r.inTurn(b.offset, func() { digest.Write(b.payload()) })
	return err
}

// inTurn runs fn, which handles content at the given offset. If nothing else slows this
// goroutine down, fn has to wait for its turn (see [writer.inTurn]). If the reader is stopped
// meanwhile, fn isn't run at all.
func (r *reader) inTurn(offset int64, fn func()) {
	if r.turns == nil || r.paced(offset) {
		fn()
		return
	}
	// Do gives up when changed rings. Try again unless the reader was stopped. All other changes
	// only matter to waitToRead, which checks the state before it waits.
	for !r.isStopped() && !r.turns.Do(r.changed, fn) {
	}
}

// paced reports whether the goroutine can't get to offset before earlier content has been sent,
// and therefore reads no faster than the network.
//
// Two kinds of content aren't paced. One is the first firstReadAhead bytes, since hundreds of
// transfers may start together, and all of them read that much at once. The other is what the
// receiver has stored already. We never send it, so an answer of a few bytes is enough to make
// us read and hash all of it.
func (r *reader) paced(offset int64) bool { return offset >= firstReadAhead && !r.receiverHas(offset) }

// receiverHas reports whether the receiver has already stored the content at offset, so that we
// needn't send it.
func (r *reader) receiverHas(offset int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return offset < r.resumeOffset
}

func (r *reader) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// waitToRead waits until the goroutine may read the block at offset. It returns false if the
// reader has been stopped. The goroutine holds no block in the meantime.
func (r *reader) waitToRead(offset int64) bool {
	for r.mustWait(offset) {
		<-r.changed
	}
	return !r.isStopped()
}

// mustWait reports whether the goroutine has to wait before it reads the block at offset.
func (r *reader) mustWait(offset int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopped:
		return false
	case r.awaitsAnswer, r.ready.full():
		return true
	}
	return !r.held.Room(r.maySend(offset))
}

// maySend reports whether the block at offset could be sent right after it's read. The caller
// holds mu.
func (r *reader) maySend(offset int64) bool {
	ends := offset + int64(r.partSize)
	if r.contentSize > 0 {
		ends = min(ends, r.contentSize)
	}
	// publish drops content that the receiver already has, so it needs no credit.
	return offset < r.resumeOffset || ends <= r.sendLimit
}

// stopAt returns the element before which fill must stop because the receiver resumes there,
// or -1 if b begins at or after that element.
func (r *reader) stopAt(b *block) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.index < r.resumeIndex {
		return r.resumeIndex
	}
	return -1
}

// checkAligned returns an error unless the element at which the receiver resumes begins at the
// byte that the receiver named. Otherwise the receiver has stored different content under this
// key.
func (r *reader) checkAligned(offset int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if offset == r.resumeOffset {
		return nil
	}
	return fmt.Errorf("%w: the first %d elements take %d bytes here, the receiver has %d stored",
		ErrDigest, r.resumeIndex, offset, r.resumeOffset)
}

// size returns how many bytes the source had. known is false until the source has ended without
// an error.
func (r *reader) size() (bytes int64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total.size, r.finished && r.err == nil
}

// publish passes b on to the ticks. kept is false if b's own memory isn't needed for that. Then
// the caller has to free b.
func (r *reader) publish(b *block) (kept bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || b.end() <= r.resumeOffset {
		return false
	}
	b.trimFront(r.resumeOffset)
	defer r.wakeTick()
	if r.ready.join(b, r.partSize) {
		return false
	}
	b.chargeTo(r.held)
	r.ready.add(b)
	return true
}

// wakeTick wakes the world if its last tick found nothing. The caller holds mu.
func (r *reader) wakeTick() {
	if r.wakeOnContent {
		r.wakeOnContent = false
		r.wake()
	}
}

// finish records how the source ended. err is io.EOF if all of it was read.
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
	r.wakeOnContent = true // even if the tick found content, it must now send the end as well
	r.wakeTick()
}

// checkTotal sets err if the source has ended before the byte at which the receiver resumes. The
// caller holds mu.
func (r *reader) checkTotal() {
	if r.finished && r.err == nil && r.total.size < r.resumeOffset {
		r.err = fmt.Errorf("%w: the source ended at byte %d, the receiver has %d stored",
			ErrDigest, r.total.size, r.resumeOffset)
	}
}

// resume is called on the world's goroutine when the receiver has answered. The receiver wants
// the content from byte offset on, where element index begins. Both are 0 if it has nothing.
func (r *reader) resume(offset, index int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.awaitsAnswer = false
	r.resumeOffset = offset
	r.resumeIndex = index
	r.checkTotal()

	// We may have read content before the answer arrived. Drop what needn't be sent.
	r.ready.trim(offset)
	r.changed.Ring()
}

// take returns the next block, which the caller then owns, or nil if the block ends beyond limit.
// A blob's first block is cut at the limit instead, so that we can send something together with
// the header.
//
// pathFull means that most of what was sent before is still queued.
func (r *reader) take(limit int64, pathFull bool) *block {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.pollLocked(limit) {
		return nil
	}
	b := r.ready.take(limit)
	r.ready.widen(pathFull)
	r.changed.Ring()
	return b
}

// poll reports whether take would return a block. If nothing has been read, it arranges for the
// world to be woken when something is.
func (r *reader) poll(limit int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit > r.sendLimit {
		r.sendLimit = limit
		r.changed.Ring() // there may be memory for content that can be sent at once
	}
	return r.pollLocked(limit)
}

// pollLocked is poll for a caller that holds mu.
func (r *reader) pollLocked(limit int64) bool {
	if r.ready.empty() {
		r.wakeOnContent = !r.finished
		return false
	}
	return r.ready.mayTake(limit)
}

// result returns how the source ended. done is false until all of the content has been taken,
// or reading it has failed.
func (r *reader) result() (total end, done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total, r.finished && (r.err != nil || r.ready.empty()), r.err
}

// stop ends the reader. It doesn't wait for the goroutine, which may be in a Read.
func (r *reader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.ready.free()
	r.changed.Ring()
}
