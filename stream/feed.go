package stream

import (
	"fmt"
	"io"
	"sync"

	"github.com/quivernet/quiver/internal/budget"
)

// readAhead is how much content a transfer reads before the tick takes it.
const readAhead = 512 << 10

// source yields a transfer's content. It is used by one goroutine.
type source interface {
	// fill adds content to the empty block c and returns io.EOF, with or without content, when there is no more. An
	// array's source does not pass the element stopAt, unless it is there already.
	fill(c *block, stopAt int64) error
	// calls names what function of the game fill calls, or called last.
	calls() string
}

// feed reads and hashes a source on a goroutine of its own, ahead of the tick that takes the blocks. Nothing but that
// goroutine waits for the source.
type feed struct {
	source source
	hash   Algorithm
	part   int    // bytes of a full part
	wake   func() // the tick found nothing, and now there is something
	// guard runs what may call functions of the game, and tells whether it returned.
	guard func(fn func()) (returned bool)

	held    *budget.Holding // blocks read
	changed chan struct{}   // holds a token when admit is to look again

	mu      sync.Mutex
	waits   bool // do not begin before resume
	ready   []*block
	bytes   int  // in ready
	hungry  bool // the tick found nothing
	stopped bool
	from    int64 // content below is hashed and not sent
	fromAt  int64 // the element that stands at from, in an array

	finished bool
	total    end // once finished without err; the id is not set
	err      error
}

func newFeed(s source, hash Algorithm, part int, waits bool, on *budget.StockAccount, wake func(), guard func(fn func()) bool) *feed {
	f := &feed{source: s, hash: hash, part: part, waits: waits, wake: wake, guard: guard, changed: make(chan struct{}, 1)}
	f.held = budget.NewHolding(on, f.look)
	return f
}

// look has admit look again.
func (f *feed) look() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// run reads until the source ends or stop is called. A Read in progress is waited for here and nowhere else.
func (f *feed) run() {
	if !f.guard(f.read) {
		f.finish(0, 0, nil, fmt.Errorf("%w: %s", ErrPanicked, f.source.calls()))
	}
}

func (f *feed) read() {
	digest := f.hash.New()
	var offset, index int64
	for f.admit() {
		c := fullBlock(f.part)
		c.offset, c.index = offset, index
		stopAt := f.stopAt(c)
		err := f.source.fill(c, stopAt)
		digest.Write(c.payload())
		offset, index = c.end(), c.index+int64(c.count)
		if index == stopAt && err == nil {
			err = f.checkAligned(offset)
		}
		if c.size() == 0 || !f.publish(c) {
			c.Free()
		}
		if err != nil {
			f.finish(offset, index, digest, err)
			return
		}
	}
}

// admit waits until there is room to read ahead; it is false when the feed was stopped. It holds no block meanwhile.
func (f *feed) admit() bool {
	for f.full() {
		<-f.changed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.stopped
}

// full reports whether nothing may be read now.
func (f *feed) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.stopped && (f.waits || f.bytes >= readAhead || !f.held.Room())
}

func (f *feed) stopAt(c *block) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.index < f.fromAt {
		return f.fromAt
	}
	return -1
}

// checkAligned fails when the elements before the one to go on with take other bytes than they took at the receiver.
func (f *feed) checkAligned(offset int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if offset == f.from {
		return nil
	}
	return fmt.Errorf("%w: the first %d elements take %d bytes, the receiver has %d of what has this key", ErrDigest, f.fromAt, offset, f.from)
}

// publish offers c to the tick and reports whether it keeps c's memory. Small blocks are copied into the last one, so
// that a source of small reads does not become many small parts; one that grew for a large element stays as it is.
func (f *feed) publish(c *block) (kept bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || c.end() <= f.from {
		return false
	}
	c.trim(f.from)
	f.bytes += c.size()
	defer f.feedTick()
	if n := len(f.ready); n > 0 && f.ready[n-1].size()+c.size() <= f.part {
		f.ready[n-1].append(c.payload())
		f.ready[n-1].count += c.count
		return false
	}
	c.noteIn(f.held)
	f.ready = append(f.ready, c)
	return true
}

func (f *feed) feedTick() {
	if f.hungry {
		f.hungry = false
		f.wake()
	}
}

func (f *feed) finish(size, count int64, digest *Hasher, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finished = true
	if err != io.EOF {
		f.err = err
	} else {
		f.total.size, f.total.count = size, count
		sum := digest.Digest().sum
		f.total.sum = sum[:f.hash.size()]
		f.checkTotal()
	}
	f.hungry = true
	f.feedTick()
}

// checkTotal fails a source that ended before the byte to go on with. The lock is held.
func (f *feed) checkTotal() {
	if f.finished && f.err == nil && f.total.size < f.from {
		f.err = fmt.Errorf("%w: the source ended at byte %d, the receiver has %d of what has this key", ErrDigest, f.total.size, f.from)
	}
}

// resume goes on at byte from, which is before element fromAt.
func (f *feed) resume(from, fromAt int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waits, f.from, f.fromAt = false, from, fromAt
	f.checkTotal()
	f.ready = trimAll(f.ready, from)
	f.bytes = 0
	for _, c := range f.ready {
		f.bytes += c.size()
	}
	f.look()
}

// take returns the next block if it lies below limit; the caller owns it. A blob's first block is cut at the limit, so
// that something leaves with its header.
func (f *feed) take(limit int64) *block {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.hasLocked(limit) {
		return nil
	}
	c := f.ready[0]
	if c.end() > limit {
		c = c.cut(limit)
	} else {
		f.ready[0] = nil
		f.ready = f.ready[1:]
	}
	f.bytes -= c.size()
	f.look()
	return c
}

// has reports whether take would return a block. If none is there, the world is woken by the next.
func (f *feed) has(limit int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hasLocked(limit)
}

func (f *feed) hasLocked(limit int64) bool {
	if len(f.ready) == 0 {
		f.hungry = !f.finished
		return false
	}
	c := f.ready[0]
	return c.end() <= limit || c.offset == 0 && c.count == 0 && limit > 0
}

// result returns what the whole was, or why it could not be read, once all of it was taken.
func (f *feed) result() (total end, err error, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total, f.err, f.finished && (f.err != nil || len(f.ready) == 0)
}

// stop ends the feed without waiting for it.
func (f *feed) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	for _, c := range f.ready {
		c.Free()
	}
	f.ready, f.bytes = nil, 0
	f.look()
}

// blobSource reads a blob.
type blobSource struct {
	r    io.Reader
	left int64 // -1: until the end
}

// maxEmptyReads is how many Reads may return neither bytes nor an error in a row.
const maxEmptyReads = 100

func (s *blobSource) calls() string { return "Read of the source" }

func (s *blobSource) fill(c *block, _ int64) error {
	room := c.room()
	if s.left >= 0 {
		room = room[:min(int64(len(room)), s.left)]
	}
	if len(room) == 0 {
		return io.EOF
	}
	for range maxEmptyReads {
		n, err := s.r.Read(room)
		if n < 0 || n > len(room) {
			return fmt.Errorf("%T read %d bytes into a buffer of %d", s.r, n, len(room))
		}
		c.buf = c.buf[:len(c.buf)+n]
		if s.left >= 0 {
			s.left -= int64(n)
		}
		if err = s.ended(err); n > 0 || err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// ended turns what Read returned into what fill returns.
func (s *blobSource) ended(err error) error {
	switch {
	case s.left == 0:
		return io.EOF
	case err == io.EOF && s.left > 0:
		return fmt.Errorf("the source ended %d bytes short of the size given to Start: %w", s.left, io.ErrUnexpectedEOF)
	case err != nil && err != io.EOF:
		return &concealed{public: "the sender could not read its source", cause: fmt.Errorf("reading the source: %w", err)}
	}
	return err
}
