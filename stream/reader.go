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
	// lent reports whether fill reads what is the caller's again once the transfer has ended.
	lent() bool
}

// reader reads and hashes a source on a goroutine of its own, ahead of the tick that takes the blocks. Nothing but that
// goroutine waits for the source.
type reader struct {
	// Set by newReader. The source is its goroutine's alone.
	source source
	hash   Algorithm
	part   int                             // bytes of a full part
	wake   func()                          // called when a tick found nothing and now there is something
	guard  func(fn func()) (returned bool) // runs what may call functions of the game, and tells whether it returned

	// Safe from any goroutine.
	held    *budget.Holding // blocks that were read and not freed
	changed chan struct{}   // holds a token when admit is to look again

	// mu guards what follows: what the goroutine has read, for the tick.
	mu     sync.Mutex
	ready  []*block
	bytes  int  // in ready
	hungry bool // the tick found nothing

	// What the world's goroutine has said.
	waits   bool  // not to begin before resume
	from    int64 // content below is hashed and not sent
	fromAt  int64 // the element that stands at from, in an array
	stopped bool

	// The goroutine.
	running bool
	left    func() // called when it has ended; nil = nobody waits

	// How the source ended, once finished.
	finished bool
	total    end // without err; the id is not set
	err      error
}

func newReader(s source, hash Algorithm, part int, waits bool, on *budget.StockAccount, wake func(), guard func(fn func()) bool) *reader {
	r := &reader{source: s, hash: hash, part: part, waits: waits, wake: wake, guard: guard, changed: make(chan struct{}, 1)}
	r.held = budget.NewHolding(on, r.look)
	return r
}

// look has admit look again.
func (r *reader) look() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// start starts the goroutine.
func (r *reader) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = true
	go r.run()
}

// run reads until the source ends or stop is called. A Read in progress is waited for here and nowhere else.
func (r *reader) run() {
	defer r.leave()
	if !r.guard(r.read) {
		r.finish(0, 0, nil, fmt.Errorf("%w: %s", ErrPanicked, r.source.calls()))
	}
}

// leave ends the goroutine.
func (r *reader) leave() {
	r.mu.Lock()
	r.running = false
	left := r.left
	r.mu.Unlock()
	if left != nil {
		left()
	}
}

// whenLeft calls fn once the goroutine, which was stopped, reads no more of what the caller lent. A blob's Read in progress is left alone.
func (r *reader) whenLeft(fn func()) {
	r.mu.Lock()
	waits := r.running && r.source.lent()
	if waits {
		r.left = fn
	}
	r.mu.Unlock()
	if !waits {
		fn()
	}
}

func (r *reader) read() {
	digest := r.hash.New()
	var offset, index int64
	for r.admit() {
		c := fullBlock(r.part)
		c.offset, c.index = offset, index
		stopAt := r.stopAt(c)
		err := r.source.fill(c, stopAt)
		digest.Write(c.payload())
		offset, index = c.end(), c.index+int64(c.count)
		if index == stopAt && err == nil {
			err = r.checkAligned(offset)
		}
		if c.size() == 0 || !r.publish(c) {
			c.Free()
		}
		if err != nil {
			r.finish(offset, index, digest, err)
			return
		}
	}
}

// admit waits until there is room to read ahead; it is false when the reader was stopped. It holds no block meanwhile.
func (r *reader) admit() bool {
	for r.full() {
		<-r.changed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.stopped
}

// full reports whether nothing may be read now.
func (r *reader) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.stopped && (r.waits || r.bytes >= readAhead || !r.held.Room())
}

func (r *reader) stopAt(c *block) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.index < r.fromAt {
		return r.fromAt
	}
	return -1
}

// checkAligned fails when the elements before the one to go on with take other bytes than they took at the receiver.
func (r *reader) checkAligned(offset int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if offset == r.from {
		return nil
	}
	return fmt.Errorf("%w: the first %d elements take %d bytes, the receiver has %d of what has this key", ErrDigest, r.fromAt, offset, r.from)
}

// size returns how many bytes the source had, once it has ended.
func (r *reader) size() (bytes int64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total.size, r.finished
}

// publish offers c to the tick and reports whether it keeps c's memory. Small blocks are copied into the last one, so
// that a source of small reads does not become many small parts; one that grew for a large element stays as it is.
func (r *reader) publish(c *block) (kept bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || c.end() <= r.from {
		return false
	}
	c.trim(r.from)
	r.bytes += c.size()
	defer r.wakeTick()
	if n := len(r.ready); n > 0 && r.ready[n-1].size()+c.size() <= r.part {
		r.ready[n-1].append(c.payload())
		r.ready[n-1].count += c.count
		return false
	}
	c.noteIn(r.held)
	r.ready = append(r.ready, c)
	return true
}

func (r *reader) wakeTick() {
	if r.hungry {
		r.hungry = false
		r.wake()
	}
}

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
	r.hungry = true
	r.wakeTick()
}

// checkTotal fails a source that ended before the byte to go on with. The lock is held.
func (r *reader) checkTotal() {
	if r.finished && r.err == nil && r.total.size < r.from {
		r.err = fmt.Errorf("%w: the source ended at byte %d, the receiver has %d of what has this key", ErrDigest, r.total.size, r.from)
	}
}

// resume goes on at byte from, which is before element fromAt.
func (r *reader) resume(from, fromAt int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits, r.from, r.fromAt = false, from, fromAt
	r.checkTotal()
	r.ready = trimAll(r.ready, from)
	r.bytes = 0
	for _, c := range r.ready {
		r.bytes += c.size()
	}
	r.look()
}

// take returns the next block if it lies below limit; the caller owns it. A blob's first block is cut at the limit, so
// that something leaves with its header.
func (r *reader) take(limit int64) *block {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.hasLocked(limit) {
		return nil
	}
	c := r.ready[0]
	if c.end() > limit {
		c = c.cut(limit)
	} else {
		r.ready[0] = nil
		r.ready = r.ready[1:]
	}
	r.bytes -= c.size()
	r.look()
	return c
}

// has reports whether take would return a block. If none is there, the world is woken by the next.
func (r *reader) has(limit int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hasLocked(limit)
}

func (r *reader) hasLocked(limit int64) bool {
	if len(r.ready) == 0 {
		r.hungry = !r.finished
		return false
	}
	c := r.ready[0]
	return c.end() <= limit || c.offset == 0 && c.count == 0 && limit > 0
}

// result returns what the whole was, or why it could not be read, once all of it was taken.
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
	for _, c := range r.ready {
		c.Free()
	}
	r.ready, r.bytes = nil, 0
	r.look()
}

// blobSource reads a blob.
type blobSource struct {
	r    io.Reader
	left int64 // -1: until the end
}

// maxEmptyReads is how many Reads may return neither bytes nor an error in a row.
const maxEmptyReads = 100

func (s *blobSource) calls() string { return "Read of the source" }
func (s *blobSource) lent() bool    { return false }

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
