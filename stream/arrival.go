package stream

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/words"
)

// An arrival is the queue between the network and the writer of an incoming transfer. The world's
// goroutine adds the parts and the sender's end message as they arrive, and the writer takes the
// content in order.
//
// Its fields are guarded by incoming.mu, except early.
type arrival struct {
	in       *incoming
	receiver *receiver       // counts parts, and bytes that arrive early
	account  *budget.Account // charged for parts and for blocks that the writer has taken
	maxBytes int64           // maximum size of the content

	parts      assembly
	endMessage *end  // size and digest of the content; nil until it arrives
	takenBytes int64 // memory of blocks that the writer has taken but that aren't consumed yet
	usage      usage // how much of its credit the sender uses

	// Wakes the writer when a part or the end message arrives, when the delivery has room again,
	// and when the transfer ends.
	changed sync.Cond

	// Bytes that arrived early, that is, before we answered the header. They are included in
	// receiver.early.bytes. Only used on the world's goroutine.
	early int64
}

// init prepares the arrival of a new transfer.
func (a *arrival) init(in *incoming) {
	*a = arrival{
		in:       in,
		receiver: &in.peer.receiver,
		account:  in.peer.account,
		maxBytes: in.peer.streams.config.maxBytes(),
		parts:    assembly{entries: in.peer.window.entries, limit: in.peer.receiver.early.limit()},
		usage:    newUsage(time.Now(), 0),
		changed:  sync.Cond{L: &in.mu},
	}
}

// add adds a part, on the world's goroutine. It returns an error if the sender broke the
// protocol, but not if the transfer merely fails.
func (a *arrival) add(p part) error {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	if a.in.finished {
		a.receiver.countLate()
		return nil
	}
	if p.end() > a.maxBytes {
		a.in.finishLocked(fmt.Errorf("%w: content exceeds %d bytes (stream.Config.MaxBytes)", ErrTooLarge, a.maxBytes))
		return nil
	}
	if err := a.countEarly(len(p.data)); err != nil {
		return err
	}
	a.receiver.countPart(p)
	a.changed.Signal()
	if err := a.addCharged(p); err != nil {
		return err
	}
	return a.checkEnd()
}

// countEarly counts n bytes of a part as early, unless we have answered the header. All transfers
// of a peer share the limit on early bytes that our limits message announced. countEarly returns an
// error if the sender has exceeded it.
func (a *arrival) countEarly(n int) error {
	if a.in.answer.replied {
		return nil
	}
	a.early += int64(n)
	return a.receiver.early.add(int64(n))
}

// uncountEarly stops counting the early bytes. It's called when the answer is sent, and when the
// transfer is removed.
func (a *arrival) uncountEarly() {
	a.receiver.early.remove(a.early)
	a.early = 0
}

// addCharged adds a part and charges the account for its memory. If there isn't enough, it
// refuses the transfer. The caller holds mu.
func (a *arrival) addCharged(p part) error {
	next := a.parts.next
	memory, err := a.parts.add(p)
	if err != nil {
		return err
	}
	a.usage.move(time.Now(), next, a.parts.next)
	a.in.answer.renewPromise()
	if !a.receiver.charge(memory) {
		a.in.finishLocked(a.receiver.noMemory(memory))
	}
	return nil
}

// onReply is called when the header is answered. Content below limit may arrive from now on. The
// caller holds mu.
func (a *arrival) onReply(limit int64) {
	a.uncountEarly()
	a.raiseLimit(limit)
	// Until now the sender could not continue, perhaps because the transfer was waiting for memory,
	// so measure its use of the credit from now on.
	a.usage = newUsage(time.Now(), a.parts.next)
}

// resume discards the content before offset, because the store has it. The caller holds mu.
func (a *arrival) resume(offset int64) { a.account.MustHold(a.parts.resume(offset)) }

// recentBytes returns how many bytes have recently arrived in order. The caller holds mu.
func (a *arrival) recentBytes(now time.Time) int64 { return a.usage.measure(now, a.parts.next) }

// onEnd is called with the end message, on the world's goroutine. It returns an error if the
// sender broke the protocol.
func (a *arrival) onEnd(m end) error {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	h := &a.in.header
	switch {
	case a.in.finished:
		return nil
	case a.endMessage != nil:
		return fmt.Errorf("second end of transfer %d", m.id)
	case h.size >= 0 && m.size != h.size:
		return fmt.Errorf("end of transfer %d has %s; its header has %d", m.id, words.Bytes(m.size), h.size)
	case m.count != h.count:
		return fmt.Errorf("end of transfer %d has %s; its header has %d", m.id, words.Plural(m.count, "element", "elements"), h.count)
	case len(m.sum) != h.hash.size():
		return fmt.Errorf("end of transfer %d has a digest of %d bytes; a digest by %v has %d",
			m.id, len(m.sum), h.hash, h.hash.size())
	}
	a.endMessage = &m
	a.changed.Signal()
	return a.checkEnd()
}

// checkEnd returns an error if a part ends beyond the size that the sender gave. It isn't the
// sender's fault if stored content ends beyond that size, so in this case checkEnd merely ends the
// transfer. The caller holds mu.
func (a *arrival) checkEnd() error {
	if a.in.finished {
		return nil
	}
	if err := a.checkStored(0); err != nil {
		a.in.finishLocked(err)
		return nil
	}
	size, last := a.contentSize(), a.parts.end()
	if size >= 0 && last > size {
		return fmt.Errorf("transfer %d has a part that ends at byte %d; the content ends at byte %d",
			a.in.header.id, last, size)
	}
	return nil
}

// raiseLimit lets the sender send content up to limit. The caller holds mu.
func (a *arrival) raiseLimit(limit int64) { a.parts.raiseLimit(limit) }

// checkStored returns the error with which the transfer must end if more bytes or elements are
// stored under its key than the sender has. The store then must have different content, which the
// writer deletes. Since the sender can't know what we have stored, this doesn't break the protocol.
// The caller holds mu.
func (a *arrival) checkStored(elements int64) error {
	h := &a.in.header
	size := a.contentSize()
	switch {
	case size >= 0 && a.parts.base > size:
		return otherSize("has", size, a.parts.base, "are stored")
	case h.kind == kindArray && elements > h.count:
		return fmt.Errorf("%w: sender has %s, but the store has %d",
			ErrDigest, words.Plural(h.count, "element", "elements"), elements)
	}
	return nil
}

// contentSize returns the size of the content in bytes, or -1 while it's unknown: before the header
// and, for an array, before the end message. The caller holds mu.
func (a *arrival) contentSize() int64 {
	if a.endMessage != nil {
		return a.endMessage.size
	}
	return a.in.header.size
}

// next waits for the next block in order, on the writer's goroutine. The caller owns the block.
// After the last block, next returns io.EOF.
func (a *arrival) next() (*block, error) {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	for {
		switch m := a.endMessage; {
		case a.in.finished:
			return nil, a.in.endedLocked()
		case m != nil && a.parts.next > m.size:
			return nil, otherSize("hashed", m.size, a.parts.next, "arrived")
		case m != nil && a.parts.next == m.size && len(a.parts.ready) == 0:
			return nil, io.EOF
		case a.in.delivery.room() && len(a.parts.ready) > 0:
			b := a.parts.take()
			a.takenBytes += b.cost()
			return b, nil
		}
		a.changed.Wait()
	}
}

// waitEnd waits for the sender's end message, on the writer's goroutine.
func (a *arrival) waitEnd() (end, error) {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	for a.endMessage == nil && !a.in.finished {
		a.changed.Wait()
	}
	if a.in.finished {
		return end{}, a.in.endedLocked()
	}
	return *a.endMessage, nil
}

// isLast reports whether b is known to be the last block of the content.
func (a *arrival) isLast(b *block) bool {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	if a.endMessage != nil {
		return b.end() >= a.endMessage.size
	}
	h := &a.in.header
	return h.total() >= 0 && h.progress(b.end(), b.index+int64(b.count)) >= h.total()
}

// drop stops charging for a block that the writer took, once its memory is free. The caller holds
// mu.
func (a *arrival) drop(cost int64) {
	a.takenBytes -= cost
	a.account.Drop(cost)
}

// chargedBytes returns how much memory the account charges for the content. The caller holds mu.
func (a *arrival) chargedBytes() int64 { return a.parts.held + a.takenBytes }

// free frees all memory when the transfer ends, and wakes the writer. The caller holds mu.
func (a *arrival) free() {
	a.account.Drop(a.chargedBytes())
	a.takenBytes = 0
	a.parts.free()
	a.changed.Broadcast()
}
