package stream

import (
	"fmt"
	"sync"
	"time"
)

// An arrival holds the parts of an incoming transfer that the writer has not taken yet, and
// the sender's end message. The world's goroutine adds to it, and the writer takes from it.
// incoming.mu guards its fields, except early.
type arrival struct {
	in *incoming

	// Wakes the writer when a part or the end message has arrived, when the delivery has room,
	// or when the transfer has ended.
	changed sync.Cond
	parts   assembly
	tail    *end  // the end message; nil until it arrives
	taken   int64 // memory in bytes of blocks that the writer took and that were not consumed yet
	usage   usage // of the credit

	// Bytes that arrived before this end sent its answer. They are included in receiver.early.
	// Used by the world's goroutine only.
	early int64
}

// add adds a part, on the world's goroutine. It returns an error if the sender broke the
// protocol.
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
		in.finishLocked(fmt.Errorf("%w: it goes beyond stream.Config.MaxBytes, %d bytes", ErrTooLarge, maxBytes))
		return nil
	}
	if err := a.countEarly(len(p.data)); err != nil {
		return err
	}
	in.peer.receiver.bytes += uint64(len(p.data))
	a.changed.Signal()
	if err := a.charge(p); err != nil {
		return err
	}
	return a.checkEnd()
}

// countEarly counts n bytes of a part, if this end has not answered the header. All transfers
// of the peer share the limit on such bytes, which this end announced in its limits message.
// countEarly returns an error if the sender broke the protocol.
func (a *arrival) countEarly(n int) error {
	r := &a.in.peer.receiver
	if a.in.answer.replied {
		return nil
	}
	a.early += int64(n)
	r.early += int64(n)
	limit := r.mostEarly()
	if r.early > limit {
		return fmt.Errorf("%w: %d bytes came before answers, the limit is %d", errNoCredit, r.early, limit)
	}
	return nil
}

// uncountEarly stops counting the bytes that arrived before the answer. It is called when the
// answer is sent or the transfer has ended.
func (a *arrival) uncountEarly() {
	a.in.peer.receiver.early -= a.early
	a.early = 0
}

// charge adds a part and charges its memory. If the budget has no room for the part, charge
// refuses the transfer. The caller holds mu.
func (a *arrival) charge(p part) error {
	peer := a.in.peer
	before, next := a.parts.held, a.parts.next
	if err := a.parts.add(p); err != nil {
		return err
	}
	a.usage.move(time.Now(), next, a.parts.next)
	if a.in.answer.replied {
		a.in.answer.cover(a.in.answer.credit.ahead)
	}
	more := a.parts.held - before
	if more > 0 && peer.receiver.hold(more) {
		return nil
	}
	peer.account.MustHold(more)
	if more > 0 {
		a.in.finishLocked(peer.receiver.noMemory())
	}
	return nil
}

// resume drops the parts below offset, which are already stored. The caller holds mu.
func (a *arrival) resume(offset int64) {
	before := a.parts.held
	a.parts.resume(offset)
	a.in.peer.account.MustHold(a.parts.held - before)
}

// onEnd handles the end message, on the world's goroutine. It returns an error if the sender
// broke the protocol.
func (a *arrival) onEnd(m end) error {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	h := &a.in.header
	switch {
	case a.in.finished:
		return nil
	case a.tail != nil:
		return fmt.Errorf("transfer %d ended twice", m.id)
	case h.kind == kindBlob && h.size >= 0 && m.size != h.size, m.count != h.count:
		return fmt.Errorf("transfer %d ended after %d bytes and %d elements, its header said %d and %d",
			m.id, m.size, m.count, h.size, h.count)
	case len(m.sum) != h.hash.size():
		return fmt.Errorf("transfer %d ended with a digest of %d bytes, one by %v has %d",
			m.id, len(m.sum), h.hash, h.hash.size())
	}
	a.tail = &m
	a.changed.Signal()
	return a.checkEnd()
}

// checkEnd returns an error if a part ends beyond the size that the sender gave. If stored
// content does, checkEnd ends the transfer: see checkStored. The caller holds mu.
func (a *arrival) checkEnd() error {
	a.checkStored(0)
	if a.in.finished {
		return nil
	}
	size, last := a.size(), a.parts.end()
	if size >= 0 && last > size {
		return fmt.Errorf("transfer %d: a part ends at byte %d, the content at %d", a.in.header.id, last, size)
	}
	return nil
}

// checkStored ends the transfer if more bytes or elements are stored under its key than the
// transfer has. The stored ones are other content, which the writer deletes. The sender has
// not broken the protocol, because it does not know what is stored. The caller holds mu.
func (a *arrival) checkStored(elements int64) {
	h := &a.in.header
	size := a.size()
	switch {
	case size >= 0 && a.parts.base > size:
		a.in.finishLocked(fmt.Errorf("%w: its sender has %d bytes, %d are stored of it",
			ErrDigest, size, a.parts.base))
	case h.kind == kindArray && elements > h.count:
		a.in.finishLocked(fmt.Errorf("%w: its sender has %d elements, %d are stored of it",
			ErrDigest, h.count, elements))
	}
}

// size returns the size of the content in bytes, or -1 while it is unknown. It is unknown
// before the header and, for an array, before the end message. The caller holds mu.
func (a *arrival) size() int64 {
	if a.tail != nil {
		return a.tail.size
	}
	return a.in.header.size
}

// next waits, on the writer's goroutine, for the next block in order, and returns it. The
// caller owns the block. After the last block, next returns nil.
func (a *arrival) next() (*block, error) {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	for {
		switch {
		case a.in.finished:
			return nil, a.in.endedLocked()
		case a.tail != nil && a.parts.next > a.tail.size:
			return nil, fmt.Errorf("%w: its sender hashed %d bytes, %d came", ErrDigest, a.tail.size, a.parts.next)
		case a.in.delivery.room() && len(a.parts.ready) > 0:
			b := a.parts.take()
			a.taken += b.cost()
			return b, nil
		case a.tail != nil && a.parts.next == a.tail.size && len(a.parts.ready) == 0:
			return nil, nil
		}
		a.changed.Wait()
	}
}

// waitTail waits, on the writer's goroutine, for the sender's end message.
func (a *arrival) waitTail() (end, error) {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	for a.tail == nil && !a.in.finished {
		a.changed.Wait()
	}
	if a.in.finished {
		return end{}, a.in.endedLocked()
	}
	return *a.tail, nil
}

// isLast reports whether the content is known to end with b.
func (a *arrival) isLast(b *block) bool {
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	if a.tail != nil {
		return b.end() >= a.tail.size
	}
	h := &a.in.header
	return h.total() >= 0 && h.progress(b.end(), b.index+int64(b.count)) >= h.total()
}

// consumed frees the memory of a block that the writer took. The caller holds mu.
func (a *arrival) consumed(cost int64) {
	a.taken -= cost
	a.in.peer.account.Drop(cost)
}

// free frees all memory at the end of the transfer. The caller holds mu.
func (a *arrival) free() {
	a.in.peer.account.Drop(a.parts.held + a.taken)
	a.taken = 0
	a.parts.free()
	a.changed.Broadcast()
}
