package sealed

import "math"

// drop says why a packet was dropped.
type drop uint8

const (
	kept        drop = iota
	dropSize         // too short or too long
	dropVersion      // first byte of a version that is not ours
	dropOld          // below the replay window
	dropReplay       // opened before
	dropKey          // of a generation whose key is not held
	dropForged       // the tag is wrong
	drops
)

// maxForged is how many packets may fail to open before the keys are given up: far below the 2^52 of RFC 9001, section
// 6.6, and still hours of a forger at line rate.
const maxForged = 1 << 36

// opened is what opening a packet gave: frames that are genuine, or why there are none.
type opened struct {
	frames []byte
	number uint64
	size   uint16 // of the packet
	why    drop
}

// opener decrypts one direction of a carrier. It is for one goroutine, which may do without the session's lock in open, for that
// writes nothing that others look at, and which alone calls mark, under the lock.
type opener struct {
	current *generation
	later   *generation // nil while it is far
	mask    *mask
	window  window // read under the lock, too
	forged  uint64
	nonce   [nonceBytes]byte
	header  [headerBytes]byte // scratch: not masked
}

func newOpener(s *suite, export Exporter, instance uint32, d Direction) (*opener, error) {
	current, mask, err := firstKeys(s, export, instance, d)
	if err != nil {
		return nil, err
	}
	return &opener{current: current, mask: mask}, nil
}

// open decrypts a packet in place, but for its number. It allocates nothing. That the number was not received before is known
// when it is marked: another copy may be open, too.
func (o *opener) open(packet []byte) (p opened) {
	p.size = uint16(min(len(packet), math.MaxUint16))
	if p.why = checkHeader(packet); p.why != kept {
		return p
	}
	sealed := packet[headerBytes:]
	copy(o.header[:], packet)
	o.mask.apply(o.header[:], sealed)
	p.number = rebuild(o.window.next, truncated(o.header[:]))
	if p.why = o.fresh(p.number); p.why != kept {
		return p
	}
	keys := o.keys(p.number)
	if keys == nil {
		p.why = dropKey
		return p
	}
	keys.nonce(&o.nonce, p.number)
	var err error
	if p.frames, err = keys.aead.Open(sealed[:0], o.nonce[:], sealed, o.header[:]); err != nil {
		p.why = dropForged
	}
	return p
}

// fresh says whether a number may be marked.
func (o *opener) fresh(number uint64) drop {
	switch {
	case o.window.below(number):
		return dropOld
	case o.window.has(number):
		return dropReplay
	}
	return kept
}

// mark notes that a packet was received, unless a copy of it was since it opened. A packet that is dropped changes nothing but a
// count; a key is allocated every 2^22 packets.
func (o *opener) mark(p opened) (why drop) {
	if p.why == kept {
		p.why = o.fresh(p.number)
	}
	switch p.why {
	case kept:
		o.window.mark(p.number)
		o.turn()
	case dropForged:
		o.forged++
	}
	return p.why
}

// keys returns the generation of a number: the current one, the next, or none.
func (o *opener) keys(number uint64) *generation {
	switch index := number >> generationBits; {
	case index == o.current.index:
		return o.current
	case o.later != nil && index == o.later.index:
		return o.later
	}
	return nil
}

// turn derives the next generation when half of the current one is through, of millions of packets, for most carriers never need
// it; and forgets the current one when the replay window has left it.
func (o *opener) turn() {
	switch {
	case o.later == nil && o.window.next > o.current.index<<generationBits+1<<(generationBits-1):
		o.later, _ = o.current.next() // only the length of a key can be wrong, and it was right before
	case o.later != nil && o.window.floor()>>generationBits > o.current.index:
		o.current, o.later = o.later, nil
	}
}
