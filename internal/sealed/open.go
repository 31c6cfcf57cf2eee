package sealed

import (
	"math"

	"github.com/quivernet/quiver/internal/recovery"
)

// A drop is the reason why a packet was dropped.
type drop uint8

const (
	dropNone    drop = iota // don't drop it
	dropSize                // too short or too long
	dropVersion             // the first byte is that of another version
	dropOld                 // below the replay window, so it may be a replay
	dropReplay              // received before
	dropKey                 // sealed with a key that we don't have
	dropForged              // the tag doesn't match the packet
	drops
)

// maxForged is the number of packets that may fail to open before the carrier closes. It's far
// below the 2^52 of RFC 9001, section 6.6, but an attacker still needs hours of forging at line
// rate to reach it.
const maxForged = 1 << 36

// An openedPacket is the result of open: either authenticated frames, or the reason why the
// packet must be dropped.
type openedPacket struct {
	frames []byte
	number uint64
	size   uint16 // bytes of the whole packet
	drop   drop
}

// An opener decrypts one direction of a carrier.
//
// It must be used by one goroutine at a time. open needs no lock, because it writes nothing that
// other goroutines read. accept must be called under the session's lock.
type opener struct {
	current *generation
	next    *generation     // the one after current; nil until half of current is used
	mask    *mask           // hides packet numbers
	window  recovery.Window // numbers received; others may read it under the lock
	forged  uint64          // packets that didn't open

	// Scratch space of open.
	nonce  [nonceBytes]byte
	header [headerBytes]byte // unmasked
}

func newOpener(s *suite, export Exporter, instance uint32, d direction) (*opener, error) {
	current, mask, err := firstKeys(s, export, instance, d)
	if err != nil {
		return nil, err
	}
	return &opener{current: current, mask: mask}, nil
}

// open decrypts a packet in place, without allocating. Only accept can tell for certain whether
// we've received the packet before, because a copy may have been opened but not accepted yet.
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
	p.drop = o.checkNumber(p.number) // before we spend time on decrypting the packet
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

// accept records that a packet was received, unless it must be dropped. A dropped packet changes
// only counters.
func (o *opener) accept(p openedPacket) drop {
	if p.drop == dropNone {
		// A copy may have been accepted since this one was opened.
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

// checkNumber returns why a packet with the given number must be dropped, or dropNone.
func (o *opener) checkNumber(number uint64) drop {
	switch {
	case o.window.Below(number):
		return dropOld
	case o.window.Has(number):
		return dropReplay
	}
	return dropNone
}

// keys returns the generation of a packet number, or nil if we don't have its key.
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

// rotateKeys derives the next generation once half of the current one's numbers are used, and
// drops the current generation once the whole replay window lies in the next. Most carriers
// never get that far.
func (o *opener) rotateKeys() {
	half := o.current.index<<generationBits + 1<<(generationBits-1)
	switch {
	case o.next == nil && o.window.Next > half:
		o.next, _ = o.current.next() // can't fail, since the key length is the same
	case o.next != nil && o.window.Floor()>>generationBits > o.current.index:
		o.current = o.next
		o.next = nil
	}
}
