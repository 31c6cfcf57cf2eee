package stream

import (
	"fmt"
	"sync"
	"time"
)

// An arrival is the queue between the network and the writer of an incoming transfer. The world's
// goroutine adds the parts and the sender's end message as they arrive, and the writer takes the
// content in order.
//
// Its fields are guarded by incoming.mu, except early.
type arrival struct {
	in *incoming

	parts      assembly
	endMessage *end  // size and digest of the content; nil until it arrives
	takenBytes int64 // memory of blocks that the writer has taken but that aren't consumed yet
	usage      usage // how much of its credit the sender uses

	// Wakes the writer when a part or the end message arrives, when the delivery has room again,
	// and when the transfer ends.
	changed sync.Cond

	// Bytes that arrived early, that is, before we answered the header. They are included in
	// receiver.early. Only used on the world's goroutine.
	early int64
}

// add adds a part, on the world's goroutine. It returns an error if the sender broke the
// protocol, but not if the transfer merely fails.
func (a *arrival) add(p part) error {
	in := a.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.finished {
		in.peer.receiver.late++
		return nil
	}
	maxBytes := in.peer.streams.config.maxBytes()
	if p.offset+int64(len(p.data)) > maxBytes {
		in.finishLocked(fmt.Errorf("%w: content exceeds %d bytes (stream.Config.MaxBytes)", ErrTooLarge, maxBytes))
		return nil
	}
	if err := a.countEarly(len(p.data)); err != nil {
		return err
	}
	in.peer.receiver.bytes += uint64(len(p.data))
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
	return a.in.peer.receiver.addEarly(int64(n))
}

// uncountEarly stops counting the early bytes. It's called when the answer is sent, and when the
// transfer is removed.
func (a *arrival) uncountEarly() {
	a.in.peer.receiver.removeEarly(a.early)
	a.early = 0
}

// addCharged adds a part and charges the account for its memory. If there isn't enough, it
// refuses the transfer. The caller holds mu.
func (a *arrival) addCharged(p part) error {
	peer := a.in.peer
	before, next := a.parts.held, a.parts.next
	if err := a.parts.add(p); err != nil {
		return err
	}
	a.usage.move(time.Now(), next, a.parts.next)
	if a.in.answer.replied {
		// takeBack may have withdrawn memory that the sender wasn't using but is using now.
		a.in.answer.cover(a.in.answer.credit.ahead)
	}
	more := a.parts.held - before
	if more > 0 && peer.receiver.charge(more) {
		return nil
	}
	// Either there is no room, or the part took no more memory. Charge for it in any case, because
	// we hold it until the transfer ends.
	peer.account.MustHold(more)
	if more > 0 {
		a.in.finishLocked(peer.receiver.noMemory())
	}
	return nil
}

// resume discards the content before offset, because the store has it. The caller holds mu.
func (a *arrival) resume(offset int64) {
	before := a.parts.held
	a.parts.resume(offset)
	a.in.peer.account.MustHold(a.parts.held - before)
}

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
		return fmt.Errorf("end of transfer %d has %d bytes; its header has %d", m.id, m.size, h.size)
	case m.count != h.count:
		return fmt.Errorf("end of transfer %d has %d elements; its header has %d", m.id, m.count, h.count)
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
	a.failIfStoreHasMore(0)
	if a.in.finished {
		return nil
	}
	size, last := a.contentSize(), a.parts.end()
	if size >= 0 && last > size {
		return fmt.Errorf("transfer %d has a part that ends at byte %d; the content ends at byte %d",
			a.in.header.id, last, size)
	}
	return nil
}

// failIfStoreHasMore ends the transfer if more bytes or elements are stored under its key than the
// sender has. The store then must have different content, which the writer deletes. Since the
// sender can't know what we have stored, this doesn't break the protocol. The caller holds mu.
func (a *arrival) failIfStoreHasMore(elements int64) {
	h := &a.in.header
	size := a.contentSize()
	switch {
	case size >= 0 && a.parts.base > size:
		a.in.finishLocked(fmt.Errorf("%w: sender has %d bytes, but %d are stored", ErrDigest, size, a.parts.base))
	case h.kind == kindArray && elements > h.count:
		a.in.finishLocked(fmt.Errorf("%w: sender has %d elements, but %d are stored", ErrDigest, h.count, elements))
	}
}

// contentSize returns the size of the content in bytes, or -1 while it's unknown: before the header
// and, for an array, before the end message. The caller holds mu.
func (a *arrival) contentSize() int64 {
	if a.endMessage != nil {
		return a.endMessage.size
	}
	return a.in.header.size
}

// next waits for the next block in order and returns it, or returns nil after the last block. The
// caller owns the block and must be the writer's goroutine.
func (a *arrival) next() (*block, error) {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	for {
		allArrived := a.endMessage != nil && a.parts.next == a.endMessage.size
		switch {
		case a.in.finished:
			return nil, a.in.endedLocked()
		case a.endMessage != nil && a.parts.next > a.endMessage.size:
			return nil, fmt.Errorf("%w: sender hashed %d bytes, but %d arrived",
				ErrDigest, a.endMessage.size, a.parts.next)
		case a.in.delivery.room() && len(a.parts.ready) > 0:
			b := a.parts.take()
			a.takenBytes += b.cost()
			return b, nil
		case allArrived && len(a.parts.ready) == 0:
			return nil, nil
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
	a.in.peer.account.Drop(cost)
}

// free frees all memory when the transfer ends, and wakes the writer. The caller holds mu.
func (a *arrival) free() {
	a.in.peer.account.Drop(a.parts.held + a.takenBytes)
	a.takenBytes = 0
	a.parts.free()
	a.changed.Broadcast()
}
