package bunch

import (
	"slices"

	"github.com/quivernet/quiver/internal/pages"
)

// A slotState says how much of its entry a slot holds.
type slotState uint8

const (
	empty slotState = iota
	partly
	full
	delivered // its unordered message overtook others, so its bytes are no longer needed
)

// A slot holds an entry that has arrived, or the pieces of it that have arrived.
type slot struct {
	payload []byte // as long as the whole entry, even if only pieces have arrived
	number  uint64 // sequence of the entry
	flags   byte   // of the bunch's header
	state   slotState

	// The first nranges are the ranges that have arrived, ascending and disjoint. They're unused
	// if the entry arrived whole.
	ranges  [maxPieces]extent
	nranges uint8

	// Memory of the payload.
	pooled bool   // it's one of the connection's blocks
	pinned uint16 // bytes that the payload keeps in memory in addition to its own
}

// An extent is a range of bytes, from off to end-1.
type extent struct{ off, end uint16 }

// add records the arrival of a range. ok is false if the entry is in too many pieces.
func (s *slot) add(off, end uint16) (ok bool) {
	merged := extent{off, end} // with all ranges that it touches
	apart := s.ranges[:0]      // the others
	for _, e := range s.ranges[:s.nranges] {
		if e.end < merged.off || e.off > merged.end {
			apart = append(apart, e)
			continue
		}
		merged = extent{min(e.off, merged.off), max(e.end, merged.end)}
	}
	if len(apart) == maxPieces {
		return false
	}

	// Insert it where it belongs.
	all := append(apart, merged)
	for i := len(all) - 1; i > 0 && all[i].off < all[i-1].off; i-- {
		all[i], all[i-1] = all[i-1], all[i]
	}
	s.nranges = uint8(len(all))
	return true
}

// has reports whether all bytes of a range have arrived.
func (s *slot) has(off, end uint16) bool {
	return s.state == full || slices.ContainsFunc(s.ranges[:s.nranges], func(e extent) bool {
		return e.off <= off && end <= e.end
	})
}

// pad extends the last entry of a run to EntryBytes with zeros, because the parity in repair
// bunches was computed with them. The zeros count as arrived. If it extends the payload, pad
// copies it. ok is false if the entry is in too many pieces.
func (s *slot) pad() (ok bool) {
	size := len(s.payload)
	if size == EntryBytes {
		return true
	}
	s.payload = append(make([]byte, 0, EntryBytes), s.payload...)[:EntryBytes]
	return s.state == full || s.add(uint16(size), EntryBytes)
}

// complete reports whether the pieces that have arrived make up the whole entry.
func (s *slot) complete() bool {
	return s.nranges == 1 && s.ranges[0] == extent{0, uint16(len(s.payload))}
}

// mayOvertake reports whether the entry has arrived and belongs to a message that needn't wait for
// earlier ones. A message that opens or closes the channel must wait.
func (s *slot) mayOvertake() bool {
	return s.state == full && s.flags&(deliveryMask|flagOpen|flagClose) == byte(ReliableUnordered)
}

const (
	// maxPinned is the maximum number of bytes that all payloads together may keep in memory in
	// addition to their own. These bytes are the rest of a datagram or of a block that a payload
	// is in. Beyond maxPinned, payloads are copied.
	maxPinned = 32 << 10

	maxSlots = 64 // slots kept for reuse
)

// payloadMemory allocates the memory of received payloads, and keeps track of it until the owner
// takes their messages.
type payloadMemory struct {
	pinned int           // bytes kept in memory that aren't part of a payload
	lent   bool          // the caller will reuse the datagram; see Conn.ReceiveLent
	slots  spares[*slot] // for reuse
	blocks blocks        // for the entries of long messages
	parts  [][]byte      // an empty list for the next run, or nil
}

func newPayloadMemory() payloadMemory {
	return payloadMemory{slots: spares[*slot]{limit: maxSlots}, blocks: newBlocks(0, maxPieceRoom)}
}

// slot returns an empty slot for entry n.
func (p *payloadMemory) slot(n uint64) *slot {
	s := p.slots.take()
	if s == nil {
		s = new(slot)
	}
	*s = slot{number: n}
	return s
}

// free takes back the slot of an entry that was processed.
func (p *payloadMemory) free(s *slot) {
	s.payload = nil
	p.slots.put(s)
}

// keep sets the payload of s. The payload either aliases the datagram, which has size
// bytes, or is a copy.
//
// We copy the payload if the caller will reuse the datagram, if an alias would keep a datagram in
// memory for less than a quarter of its bytes, or if maxPinned is reached. A payload of size bytes,
// however, isn't part of a datagram but memory of our own, so it never has to be copied.
func (p *payloadMemory) keep(s *slot, payload []byte, size int) {
	wasted := size - len(payload)
	isOurs := wasted == 0
	worthIt := wasted <= 3*len(payload)
	mayAlias := isOurs || !p.lent && worthIt
	if mayAlias && p.pin(s, wasted) {
		s.payload = payload
		return
	}
	p.block(s, len(payload))
	copy(s.payload, payload)
}

// block gives s memory of its own for size bytes. An entry of a long message gets a block from
// the pool, unless more than half of the block would be wasted. join returns the block to the pool.
func (p *payloadMemory) block(s *slot, size int) {
	if s.flags&flagWhole != flagWhole && size >= EntryBytes/2 && p.pin(s, EntryBytes-size) {
		s.payload, s.pooled = p.blocks.get(EntryBytes)[:size], true
		return
	}
	s.payload = make([]byte, size)
}

// pin counts wasted bytes, which the payload of s keeps in memory in addition to its own. If the
// sum would exceed maxPinned, it does nothing and returns false.
func (p *payloadMemory) pin(s *slot, wasted int) bool {
	if p.pinned+wasted > maxPinned {
		return false
	}
	p.pinned += wasted
	s.pinned = uint16(wasted)
	return true
}

// messageMemory returns memory for a message of size bytes. It's a page, which Conn.Reuse can take
// back, unless a page is larger than what the peer is charged for the message (see allocatedSize).
func messageMemory(size int) []byte {
	if size <= pages.Size && allocatedSize(size) >= pages.Size {
		return pages.Take()[:0]
	}
	return slices.Grow([]byte(nil), size)
}

// join copies the parts of a run into one message, and takes back their memory.
func (p *payloadMemory) join(r *run) (message []byte) {
	message = messageMemory(r.size)
	for _, part := range r.parts {
		message = append(message, part...)
	}
	for i, part := range r.parts {
		if r.pooled&(1<<i) != 0 {
			p.blocks.put(part[:0])
		}
	}
	clear(r.parts)
	p.parts = r.parts[:0]
	p.pinned -= r.pinned
	return message
}

// takeParts returns an empty list for the parts of a run.
func (p *payloadMemory) takeParts() [][]byte {
	parts := p.parts
	p.parts = nil
	return parts
}

// hasSpare reports whether there may be memory for trim to free.
func (p *payloadMemory) hasSpare() bool {
	return p.blocks.hasSpare() || p.slots.hasSpare() || p.parts != nil
}

// trim frees the memory that hasn't been needed since the last trim.
func (p *payloadMemory) trim() {
	p.blocks.trim()
	p.slots.trim()
	p.parts = nil
}
