package sealed

import (
	"math"

	"github.com/quivernet/quiver/internal/recovery"
)

// A drop is the reason why a packet was dropped.
type drop uint8

const (
	dropNone    drop = iota // the packet was not dropped
	dropSize                // too short or too long
	dropVersion             // first byte of a version that is not ours
	dropOld                 // below the replay window
	dropReplay              // opened before
	dropKey                 // of a generation whose key is not held
	dropForged              // the tag does not match the packet
	drops
)

// maxForged is the number of packets that may fail to open before the carrier ends. It is
// far below the 2^52 of RFC 9001, section 6.6, and still takes hours of forging at line
// rate.
const maxForged = 1 << 36

// opened is the result of open: the packet's authenticated frames, or the reason why the
// packet must be dropped.
type openedPacket struct {
	frames []byte
	number uint64 // of the packet
	size   uint16 // bytes of the packet
	drop   drop   // kept, or the reason to drop it
}

// opener decrypts one direction of a carrier. One goroutine calls its methods. It calls
// open without a lock, because open writes nothing that others read. It calls mark under
// the session's lock.
type opener struct {
	current *generation
	next    *generation     // the one after current; nil until half of current is used
	mask    *mask           // masks packet numbers
	window  recovery.Window // received numbers; written by mark, so others read it under the session's lock
	forged  uint64          // packets that did not open

	// Scratch memory.
	nonce  [nonceBytes]byte
	header [headerBytes]byte // of the packet that open handles, unmasked
}

func newOpener(s *suite, export Exporter, instance uint32, d direction) (*opener, error) {
	current, mask, err := firstKeys(s, export, instance, d)
	if err != nil {
		return nil, err
	}
	return &opener{current: current, mask: mask}, nil
}

// open decrypts the frames of a packet in place, without allocating. Only mark decides
// whether the number is new, because another copy of the packet may have been opened as
// well.
func (o *opener) open(packet []byte) (p openedPacket) {
	p.size = uint16(min(len(packet), math.MaxUint16))
	p.drop = checkHeader(packet)
	if p.drop != dropNone {
		return p
	}
	sealed := packet[headerBytes:]
	copy(o.header[:], packet)
	o.mask.apply(o.header[:], sealed)
	p.number = recovery.Number(o.window.Next, uint64(headerNumber(o.header[:])), 32)
	p.drop = o.checkNumber(p.number)
	if p.drop != dropNone {
		return p
	}
	keys := o.keys(p.number)
	if keys == nil {
		p.drop = dropKey
		return p
	}
	keys.nonce(&o.nonce, p.number)
	var err error
	p.frames, err = keys.aead.Open(sealed[:0], o.nonce[:], sealed, o.header[:])
	if err != nil {
		p.drop = dropForged
	}
	return p
}

// fresh returns the reason to drop a packet with that number, or kept.
func (o *opener) checkNumber(number uint64) drop {
	switch {
	case o.window.Below(number):
		return dropOld
	case o.window.Has(number):
		return dropReplay
	}
	return dropNone
}

// mark records that a packet was received. It returns the reason to drop the packet, or
// kept. A copy may have been received since open. A dropped packet changes only counts.
func (o *opener) accept(p openedPacket) (why drop) {
	if p.drop == dropNone {
		p.drop = o.checkNumber(p.number)
	}
	switch p.drop {
	case dropNone:
		o.window.Mark(p.number)
		o.rotateKeys()
	case dropForged:
		o.forged++
	}
	return p.drop
}

// keys returns the generation of a number, or nil if its key is not held.
func (o *opener) keys(number uint64) *generation {
	index := number >> generationBits
	switch {
	case index == o.current.index:
		return o.current
	case o.next != nil && index == o.next.index:
		return o.next
	}
	return nil
}

// turn derives the next generation when half of the current one is used. Most carriers
// never reach that. It drops the current generation when the whole replay window lies in
// the next one.
func (o *opener) rotateKeys() {
	switch {
	case o.next == nil && o.window.Next > o.current.index<<generationBits+1<<(generationBits-1):
		o.next, _ = o.current.next() // fails only for a wrong key length, and the length was right before
	case o.next != nil && o.window.Floor()>>generationBits > o.current.index:
		o.current = o.next
		o.next = nil
	}
}
