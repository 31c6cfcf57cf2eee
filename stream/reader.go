package stream

import (
	"fmt"
	"io"
	"sync"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/crew"
	"github.com/quivernet/quiver/internal/words"
)

// A source is where the content of a transfer comes from: an io.Reader or the elements of an
// array. Only the reader's goroutine uses it.
type source interface {
	// fill adds content to the empty block b. It returns io.EOF at the end of the source, with
	// or without content. The source of an array stops before element stopAt, unless stopAt is
	// negative.
	fill(b *block, stopAt int64) error
	// callbackName describes the game's function that the latest fill called, such as an
	// io.Reader's Read. It identifies that function in the error if the function panics.
	callbackName() string
	// readsCallerMemory reports whether fill reads memory owned by the caller of Start, who may
	// change it as soon as the transfer has ended.
	readsCallerMemory() bool
}

// A readerConfig is what a reader needs to know about its transfer.
type readerConfig struct {
	source      source
	hash        Algorithm
	partSize    int   // payload of a full part, in bytes; set by start
	contentSize int64 // from the header; 0 or less if unknown

	account *budget.StockAccount // limits the memory of the blocks
	turns   *crew.Turns          // limits how many readers hash at once; nil means no limit

	wake  func()                          // called when there is content after a tick found none
	guard func(fn func()) (returned bool) // runs fn, which calls the game; false if fn panicked
}

// A reader reads the source of a transfer on its own goroutine, hashes the content, and queues it
// in blocks, slightly ahead of the ticks that take and send them. Ticks therefore never wait for a
// slow source.
type reader struct {
	readerConfig // doesn't change; only the goroutine reads the source

	// Safe for concurrent use.
	held    *budget.Holding // charged for blocks that have been read and not yet freed
	changed bell.Bell       // rung when waitToRead must check again

	// mu guards everything below.
	mu            sync.Mutex
	ready         readQueue // blocks that no tick has taken yet
	wakeOnContent bool      // a tick found no block, so wake the world when one is ready

	// Set on the world's goroutine, for the reader's goroutine.
	sendLimit    int64 // end of the content that may be sent; 0 until the header is sent
	awaitsAnswer bool  // don't read before resume is called
	resumeOffset int64 // content before this byte is hashed but not sent
	resumeIndex  int64 // in an array, the element that begins at resumeOffset
	stopped      bool  // the goroutine must end

	// State of the goroutine.
	started bool
	running bool   // between start and exit
	onExit  func() // called by exit; nil if nobody is waiting for the goroutine

	// How the source ended. Only valid once finished is set.
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

// start starts the goroutine unless it has been started or stopped before. Parts will have up to
// partSize bytes.
func (r *reader) start(partSize int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started && !r.stopped {
		r.partSize = partSize
		r.started = true
		r.running = true
		go r.run()
	}
}

// run is the body of the goroutine. It reads until the source ends or stop is called.
func (r *reader) run() {
	defer r.exit()
	if !r.guard(r.read) {
		r.finish(0, 0, nil, fmt.Errorf("%w: %s", ErrPanicked, r.source.callbackName()))
	}
}

// exit is called when the goroutine ends. It calls the function registered by whenUnused.
func (r *reader) exit() {
	r.mu.Lock()
	r.running = false
	onExit := r.onExit
	r.mu.Unlock()
	if onExit != nil {
		onExit()
	}
}

// whenUnused calls fn as soon as the goroutine no longer reads memory owned by the caller of
// Start. The reader must already be stopped.
//
// A blob's source reads no such memory, so fn is called immediately for a blob, even if the
// goroutine is still in a slow Read.
func (r *reader) whenUnused(fn func()) {
	r.mu.Lock()
	inUse := r.running && r.source.readsCallerMemory()
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
		b := r.newBlock(offset)
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
		r.publish(b)
		if err != nil {
			r.finish(offset, index, digest, err)
			return
		}
	}
}

// newBlock returns an empty block for the content at offset. If the last block would have only a
// few entries, the last two blocks share what is left, because bunch makes no repair bunches for so
// short a message, and on a lossy path it would often cost the transfer a round trip.
func (r *reader) newBlock(offset int64) *block {
	const few = 4 * bunch.EntryBytes
	remaining := r.contentSize - offset
	size := r.partSize
	if afterThis := remaining - int64(size); afterThis > 0 && afterThis < few {
		size = min(size, int(remaining+1)/2)
	}
	if size <= minPageBytes {
		return newHeapBlock(size)
	}
	return newPageBlock(size)
}

// fill fills a block from the source and hashes it. It takes turns with other readers for the
// work that needs a processor.
func (r *reader) fill(b *block, stopAt int64, digest *Hasher) (err error) {
	if r.source.readsCallerMemory() {
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

// inTurn runs fn, which processes content at the given offset. Unless the network already paces
// this goroutine, inTurn first waits for its turn (see [writer.inTurn]). If the reader is stopped
// while it waits, inTurn returns without running fn.
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

// paced reports whether the goroutine can't reach offset before earlier content has been sent,
// and therefore reads no faster than the network.
//
// Two kinds of content aren't paced. The first firstReadAhead bytes aren't, because hundreds of
// transfers may start together and each of them reads that much at once. Content that the receiver
// has already stored isn't either: we never send it, so an answer of a few bytes is enough to make
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
// reader has been stopped. It's called before a block is allocated, so that a waiting reader holds
// no memory.
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
	end := offset + int64(r.partSize)
	if r.contentSize > 0 {
		end = min(end, r.contentSize)
	}
	// publish drops content that the receiver already has, so it needs no credit.
	return offset < r.resumeOffset || end <= r.sendLimit
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

// checkAligned returns an error unless the element at which the receiver resumes begins at offset
// for the receiver, too. If it doesn't, the receiver has stored different content under this key.
func (r *reader) checkAligned(offset int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if offset == r.resumeOffset {
		return nil
	}
	return fmt.Errorf("%w: first %d elements have %d bytes at the sender, but %d in the receiver's store",
		ErrDigest, r.resumeIndex, offset, r.resumeOffset)
}

// size returns the total size of the source in bytes. known is false until the source has ended
// without an error.
func (r *reader) size() (bytes int64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total.size, r.finished && r.err == nil
}

// publish makes the content of b available to the ticks. It takes ownership of b, and frees b if
// there is no content that the receiver needs, or if that content fits into the last block.
func (r *reader) publish(b *block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || b.size() == 0 || b.end() <= r.resumeOffset {
		b.Free()
		return
	}
	b.trimFront(r.resumeOffset)
	if r.ready.tryJoin(b, r.partSize) {
		b.Free()
	} else {
		b.chargeTo(r.held)
		r.ready.add(b)
	}
	r.wakeTick()
}

// wakeTick wakes the world if its last tick found nothing. The caller holds mu.
func (r *reader) wakeTick() {
	if r.wakeOnContent {
		r.wakeOnContent = false
		r.wake()
	}
}

// finish records how the source ended. err is io.EOF if all of its content was read.
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
		r.failIfTooShort()
	}
	r.wakeOnContent = true // even if the last tick found content, another one must send the end
	r.wakeTick()
}

// failIfTooShort sets err if the source ended before the byte at which the receiver resumes. The
// caller holds mu.
func (r *reader) failIfTooShort() {
	if r.finished && r.err == nil && r.total.size < r.resumeOffset {
		r.err = fmt.Errorf("%w: source ended after %s, but the receiver has stored %d",
			ErrDigest, words.Bytes(r.total.size), r.resumeOffset)
	}
}

// resume is called on the world's goroutine when the receiver has answered the header. It lets the
// goroutine read on, and discards content before byte offset, where element index begins, because
// the receiver has stored it. Both are 0 if the receiver has nothing.
func (r *reader) resume(offset, index int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.awaitsAnswer = false
	r.resumeOffset = offset
	r.resumeIndex = index
	r.failIfTooShort()

	// Some of that content may have been read before the answer arrived.
	r.ready.trim(offset)
	r.changed.Ring()
}

// take removes and returns the next block, which the caller then owns. It returns nil if there is
// none or if it ends beyond limit, except that a blob's first block is cut at limit, so that some
// content can be sent along with the header.
//
// pathFull means that most of what was sent earlier is still queued, so there is no point in
// reading further ahead.
func (r *reader) take(limit int64, pathFull bool) *block {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.canTake(limit) {
		return nil
	}
	b := r.ready.take(limit)
	r.ready.widenIfDrained(pathFull)
	r.changed.Ring()
	return b
}

// allow raises the limit up to which content may be sent, and reports whether take would return a
// block. If none is ready, it arranges for the world to be woken when one is.
func (r *reader) allow(limit int64) (canTake bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit > r.sendLimit {
		r.sendLimit = limit
		r.changed.Ring() // content that can be sent at once may use more memory
	}
	if r.ready.empty() {
		r.wakeOnContent = !r.finished
	}
	return r.canTake(limit)
}

// canTake reports whether take would return a block. The caller holds mu.
func (r *reader) canTake(limit int64) bool { return !r.ready.empty() && r.ready.mayTake(limit) }

// result returns how the source ended. done is false until all of the content has been taken or
// reading it has failed.
func (r *reader) result() (total end, done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total, r.finished && (r.err != nil || r.ready.empty()), r.err
}

// stop ends the reader and frees its blocks. It doesn't wait for the goroutine, which may be in a
// slow Read.
func (r *reader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.ready.free()
	r.changed.Ring()
}
