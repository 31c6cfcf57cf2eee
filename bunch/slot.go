package bunch

import (
	"slices"

	"github.com/quivernet/quiver/internal/pages"
)

// A slotState says how much of an entry its slot holds.
type slotState uint8

const (
	empty slotState = iota
	partly
	full
	delivered // its unordered message was delivered before its turn
)

// A slot holds one entry that has arrived, whole or in pieces.
type slot struct {
	payload []byte // if state is partly: as long as the whole entry
	number  uint64
	have    [maxPieces]extent // ranges of the entry that have arrived, ascending and disjoint
	n       uint8             // extents in use
	flags   byte              // of the bunch's header
	state   slotState
	pooled  bool   // payload is a block of the connection
	pinned  uint16 // bytes that payload keeps in memory besides its own
}

// An extent is a range of bytes.
type extent struct{ off, end uint16 }

// add records that [off, end) has arrived. ok is false if there are too many pieces.
func (s *slot) add(off, end uint16) (ok bool) {
	merged := extent{off, end}
	kept := s.have[:0]
	for _, e := range s.have[:s.n] {
		if e.end < merged.off || e.off > merged.end {
			kept = append(kept, e)
			continue
		}
		merged = extent{min(e.off, merged.off), max(e.end, merged.end)}
	}
	if len(kept) == maxPieces {
		return false
	}
	kept = append(kept, merged)
	for i := len(kept) - 1; i > 0 && kept[i].off < kept[i-1].off; i-- {
		kept[i], kept[i-1] = kept[i-1], kept[i]
	}
	s.n = uint8(len(kept))
	return true
}

// has reports whether all of [off, end) has arrived.
func (s *slot) has(off, end uint16) bool {
	return s.state == full || slices.ContainsFunc(s.have[:s.n], func(e extent) bool {
		return e.off <= off && end <= e.end
	})
}

// fillUp pads the last entry of a run with zeros in memory of its own. The zeros count as
// arrived. ok is false if there are too many pieces.
func (s *slot) fillUp() (ok bool) {
	size := len(s.payload)
	if size == EntryBytes {
		return true
	}
	s.payload = append(make([]byte, 0, EntryBytes), s.payload...)[:EntryBytes]
	return s.state == full || s.add(uint16(size), EntryBytes)
}

// complete reports whether all bytes have arrived.
func (s *slot) complete() bool {
	return s.n == 1 && s.have[0] == extent{0, uint16(len(s.payload))}
}

// mayOvertake reports whether the entry has arrived and its message may overtake earlier ones.
func (s *slot) mayOvertake() bool {
	return s.state == full && s.flags&(deliveryMask|flagOpen|flagClose) == byte(ReliableUnordered)
}

const (
	// Bytes of datagrams and blocks that payloads may keep in memory besides their own.
	// Beyond it, payloads are copied.
	maxPinned = 32 << 10
	maxSlots  = 64 // slots kept for reuse
)

// payloadMemory allocates the memory of received payloads. It counts a payload until the
// owner takes its message.
type payloadMemory struct {
	pinned int  // bytes that payloads keep in memory besides their own
	lent   bool // the datagram being received belongs to the caller; see Conn.ReceiveLent
	slots  spares[*slot]
	blocks blocks   // for parts of runs
	parts  [][]byte // an empty list for the parts of the next run
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

// free takes back a slot whose entry was processed.
func (p *payloadMemory) free(s *slot) {
	s.payload = nil
	p.slots.put(s)
}

// keep puts payload into s. payload aliases the datagram, which has size bytes.
//
// keep copies the payload if the datagram is lent, if the payload is less than a quarter of
// the datagram, or if maxPinned is reached. A payload of all size bytes is memory of our
// own and is never copied.
func (p *payloadMemory) keep(s *slot, payload []byte, size int) {
	beyond := size - len(payload)
	mayAlias := beyond == 0 || !p.lent && beyond <= 3*len(payload)
	if mayAlias && p.pin(s, beyond) {
		s.payload = payload
		return
	}
	p.block(s, len(payload))
	copy(s.payload, payload)
}

// block gives s memory of its own. Parts of a run get blocks, which join takes back.
func (p *payloadMemory) block(s *slot, size int) {
	if s.flags&flagWhole != flagWhole && size >= EntryBytes/2 && p.pin(s, EntryBytes-size) {
		s.payload, s.pooled = p.blocks.get(EntryBytes)[:size], true
		return
	}
	s.payload = make([]byte, size)
}

// pin records that the payload of s keeps beyond bytes in memory besides its own. If that
// exceeds maxPinned, it records nothing and returns false.
func (p *payloadMemory) pin(s *slot, beyond int) bool {
	if p.pinned+beyond > maxPinned {
		return false
	}
	p.pinned += beyond
	s.pinned = uint16(beyond)
	return true
}

// messageMemory returns empty memory for a message of size bytes. It takes a page for it,
// if the page is no more than inMemory allows (see Conn.Reuse).
func messageMemory(size int) []byte {
	if size <= pages.Size && inMemory(size) >= pages.Size {
		return pages.Take()[:0]
	}
	return slices.Grow([]byte(nil), size)
}

// join copies the parts of a run into its message and takes back their memory.
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

// spare reports whether trim may have memory to free.
func (p *payloadMemory) spare() bool {
	return p.blocks.spare() || len(p.slots.items) > 0 || p.parts != nil
}

// trim frees the memory that was not needed since the last trim.
func (p *payloadMemory) trim() {
	p.blocks.trim()
	p.slots.trim()
	p.parts = nil
}
