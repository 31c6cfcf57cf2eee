package stream

import (
	"fmt"
	"io"
	"sync"
)

const (
	// maxDelivered is how many pieces wait for the application beside what is still in the assembly, where small parts
	// are gathered.
	maxDelivered = 16
	// batchBytes is how large a batch may be in memory before no element is added: a byte may say that a struct is all zeros.
	batchBytes = 32 << 10
	// maxDecoded is how large all batches of a transfer may be that wait for the application.
	maxDecoded = 2 << 20
	// incomingBytes is what a transfer takes beside its content: records here, at the application, the stacks of two
	// goroutines, and a Hasher of BLAKE3.
	incomingBytes = 20 << 10
)

// incoming is a transfer at its receiver: parts come in on the world's goroutine, one goroutine of its own hashes,
// stores and decodes them, and the application consumes what that delivers, wherever it likes.
type incoming struct {
	peer   *Peer
	header header
	known  bool       // the header has come; until then only the id is set
	decode decodeFunc // arrays only
	store  Store      // nil: none; the handler may change it

	mu       sync.Mutex
	arrived  sync.Cond // for the goroutine
	ready    sync.Cond // for the application
	parts    assembly
	tail     *end
	pieces   []piece // for the application
	taken    int64   // memory of the blocks that were in parts and are not consumed
	borrowed int64   // memory of what was decoded, or comes from the store, and is not consumed
	verified bool    // pieces holds all that is left
	finished bool
	err      error
	done     chan struct{}

	credit   credit
	position int64 // bytes that the application has consumed
	elements int64 // and elements
	size     int64 // of the whole, once verified
	resumed  int64 // what was stored when it began, as Progress counts

	onTick bool // the tick delivers
	reply  *accept

	decoded int64 // elements; the goroutine's own

	// What follows belongs to the world's goroutine.
	reserved int64 // window that it begins with
	promised int64 // memory for its window
	ahead    int64 // bytes that came before the answer left
	started  bool
	replied  bool
	push     func(batch any)
	ended    func(error)
}

// piece is content for the application: a block of a blob, or a batch of an array's elements.
type piece struct {
	block *block
	batch any
	bytes int64
	count int64
	cost  int64 // memory
	fresh bool  // it is charged when it is delivered; a block from parts was when it came
}

// decodeFunc decodes elements at the start of b: at most count of them, or as many as are whole when count is negative.
// An error is that of the element behind the decoded ones.
type decodeFunc func(b []byte, count int) (decoded, error)

// decoded are elements of an array.
type decoded struct {
	batch  any
	count  int
	memory int64  // of the batch, with all that it refers to
	rest   []byte // what follows them
}

// piece returns the elements, which were so many bytes, as content for the application.
func (d decoded) piece(bytes int) piece {
	return piece{batch: d.batch, bytes: int64(bytes), count: int64(d.count), cost: d.memory, fresh: true}
}

func newIncoming(p *Peer, id uint64) *incoming {
	in := &incoming{peer: p, header: header{id: id, size: -1}, store: p.streams.config.Store, done: make(chan struct{})}
	in.arrived.L, in.ready.L = &in.mu, &in.mu
	in.parts.limit = p.streams.config.early()
	return in
}

// start shows the transfer to its handler and begins to receive, unless that rejects it.
func (in *incoming) start(t topic) {
	in.started = true
	in.guard("the handler", func() { t.open(in) })
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.finished {
		go in.run()
	}
}

// guard runs fn, which calls a function of the game. When that panics, the transfer fails, and the panic goes on unless
// rpc.Config.OnPanic takes it.
func (in *incoming) guard(what string, fn func()) (returned bool) {
	defer func() {
		if !returned {
			in.finish(fmt.Errorf("%w: %s", ErrPanicked, what))
		}
	}()
	return in.peer.streams.world.Guard(in.peer.conn, fn)
}

// add takes a part, on the world's goroutine. An error is the sender's violation.
func (in *incoming) add(m part) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.finished {
		in.peer.receiver.late++
		return nil
	}
	if most := in.peer.streams.config.maxBytes(); m.offset+int64(len(m.data)) > most {
		in.finishLocked(fmt.Errorf("%w: it goes beyond stream.Config.MaxBytes, %d", ErrTooLarge, most))
		return nil
	}
	in.arrived.Signal()
	return in.addLocked(m)
}

// addLocked charges what the part takes. A transfer that the budget has no room for is refused.
func (in *incoming) addLocked(m part) error {
	if !in.replied {
		in.ahead += int64(len(m.data))
		in.peer.receiver.ahead += int64(len(m.data))
		if most := in.peer.streams.config.early(); in.peer.receiver.ahead > most {
			return fmt.Errorf("%w: %d bytes came before answers, the limit is %d", errNoCredit, in.peer.receiver.ahead, most)
		}
	}
	before := in.parts.held
	if err := in.parts.add(m); err != nil {
		return err
	}
	more := in.parts.held - before
	if more > 0 && in.peer.receiver.hold(more) {
		return in.checkEnd()
	}
	in.peer.account.MustHold(more)
	if more > 0 {
		in.finishLocked(in.peer.receiver.noMemory())
	}
	return in.checkEnd()
}

// begin notes the header. An error is the sender's violation.
func (in *incoming) begin(m header) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.header, in.known = m, true
	return in.checkEnd()
}

// checkEnd fails when parts lie beyond what the header or the end says; when what is stored does, the transfer does. The lock is held.
func (in *incoming) checkEnd() error {
	in.checkStored(0)
	size := in.sizeLocked()
	if at := in.parts.end(); !in.finished && size >= 0 && at > size {
		return fmt.Errorf("transfer %d: a part ends at byte %d, the content at %d", in.header.id, at, size)
	}
	return nil
}

// sizeLocked is the size of the content, -1 while it is not known: of an array, and before the header.
func (in *incoming) sizeLocked() int64 {
	if in.tail != nil {
		return in.tail.size
	}
	return in.header.size
}

// checkStored ends the transfer when more is stored under its key than it has, so many elements perhaps: that is other content, which
// is deleted. The sender knew nothing of it, and broke no rule. The lock is held.
func (in *incoming) checkStored(elements int64) {
	switch size := in.sizeLocked(); {
	case size >= 0 && in.parts.base > size:
		in.finishLocked(fmt.Errorf("%w: %d bytes are stored under its key, it has %d", ErrDigest, in.parts.base, size))
	case in.header.kind == kindArray && elements > in.header.count:
		in.finishLocked(fmt.Errorf("%w: %d elements are stored under its key, it has %d", ErrDigest, elements, in.header.count))
	}
}

// onEnd notes what the whole is. An error is the sender's violation.
func (in *incoming) onEnd(m end) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.finished:
		return nil
	case in.tail != nil:
		return fmt.Errorf("transfer %d ended twice", m.id)
	case in.header.kind == kindBlob && in.header.size >= 0 && m.size != in.header.size, m.count != in.header.count:
		return fmt.Errorf("transfer %d ended after %d bytes and %d elements, its header said %d and %d",
			m.id, m.size, m.count, in.header.size, in.header.count)
	case len(m.sum) != in.header.hash.size():
		return fmt.Errorf("transfer %d ended with a digest of %d bytes, one by %v has %d", m.id, len(m.sum), in.header.hash, in.header.hash.size())
	}
	in.tail = &m
	in.arrived.Signal()
	return in.checkEnd()
}

// finish ends the transfer here, the first time: with nil once all was consumed.
func (in *incoming) finish(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.finishLocked(err)
}

func (in *incoming) finishLocked(err error) {
	if in.finished {
		return
	}
	in.finished = true
	if err != nil {
		in.err = ending(err, byReceiver, &in.header, in.progressLocked())
	}
	in.peer.account.Drop(in.parts.held + in.taken)
	in.peer.account.Repay(in.borrowed)
	in.taken, in.borrowed = 0, 0
	in.parts.free()
	if err != nil {
		in.pieces = nil // a reader may still hold the first: the collector has them
	}
	close(in.done)
	in.arrived.Broadcast()
	in.ready.Broadcast()
	in.peer.wake()
}

// next waits for the next block in order, or for the end, which is a nil block. The caller owns the block.
func (in *incoming) next() (*block, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		switch {
		case in.finished:
			return nil, in.endedLocked()
		case in.tail != nil && in.parts.next > in.tail.size:
			return nil, fmt.Errorf("%w: %d bytes arrived, the sender hashed %d", ErrDigest, in.parts.next, in.tail.size)
		case len(in.pieces) < maxDelivered && len(in.parts.ready) > 0:
			c := in.parts.take()
			in.taken += c.cost()
			return c, nil
		case in.tail != nil && in.parts.next == in.tail.size && len(in.parts.ready) == 0:
			return nil, nil
		}
		in.arrived.Wait()
	}
}

func (in *incoming) endedLocked() error {
	if in.err != nil {
		return in.err
	}
	return io.EOF
}

// waitTail waits for the sender's last word on the content.
func (in *incoming) waitTail() (end, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for in.tail == nil && !in.finished {
		in.arrived.Wait()
	}
	if in.finished {
		return end{}, in.endedLocked()
	}
	return *in.tail, nil
}

// deliver gives a piece to the application. A fresh one first waits for room.
func (in *incoming) deliver(p piece) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	for p.fresh && !in.finished && !in.borrow(p.cost) {
		in.arrived.Wait()
	}
	if in.finished {
		return in.endedLocked()
	}
	in.pieces = append(in.pieces, p)
	in.ready.Signal()
	if in.onTick {
		in.peer.wake()
	}
	return nil
}

// borrow charges what waits for the application, if there is room; the first piece always has it. The lock is held.
func (in *incoming) borrow(cost int64) bool {
	first := len(in.pieces) == 0
	switch {
	case first:
		in.peer.account.MustBorrow(cost)
	case in.borrowed+cost > maxDecoded || !in.peer.account.Borrow(cost, false):
		return false
	}
	in.borrowed += cost
	return true
}

// release notes that the memory of p is free, unless the transfer has ended and all of it is. The lock is held.
func (in *incoming) release(p piece) {
	switch {
	case in.finished:
	case p.fresh:
		in.borrowed -= p.cost
		in.peer.account.Repay(p.cost)
	default:
		in.taken -= p.cost
		in.peer.account.Drop(p.cost)
	}
}

// verify notes that all was delivered and is what the sender hashed.
func (in *incoming) verify(size int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.verified, in.size = true, size
	in.ready.Broadcast()
	in.completeLocked()
}

func (in *incoming) completeLocked() {
	if in.verified && in.position == in.size {
		in.finishLocked(nil)
	}
}

func (in *incoming) progress() Progress {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.progressLocked()
}

func (in *incoming) progressLocked() Progress {
	p := Progress{Sent: in.parts.next, Acked: in.position, Total: in.header.total(), Resumed: in.resumed}
	switch {
	case in.header.kind == kindArray:
		p.Sent, p.Acked = in.elements, in.elements
		for _, waiting := range in.pieces {
			p.Sent += waiting.count
		}
	case in.tail != nil:
		p.Total = in.tail.size
	}
	return p
}
