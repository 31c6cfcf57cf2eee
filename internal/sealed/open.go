package sealed

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

// opener decrypts one direction of a carrier. It is not safe for concurrent use.
type opener struct {
	current, later *generation
	mask           *mask
	window         window
	forged         uint64
	nonce          [nonceBytes]byte
	header         [headerBytes]byte // scratch: not masked
}

func newOpener(export Exporter, instance uint32, d Direction) (*opener, error) {
	current, mask, err := firstKeys(export, instance, d)
	if err != nil {
		return nil, err
	}
	later, err := current.next()
	return &opener{current: current, later: later, mask: mask}, err
}

// open decrypts a packet in place, but for its number, and marks that as received. What it drops changes nothing but a
// count; it allocates nothing but a key every 2^22 packets that are genuine.
func (o *opener) open(packet []byte) (frames []byte, number uint64, why drop) {
	if why = checkHeader(packet); why != kept {
		return nil, 0, why
	}
	sealed := packet[headerBytes:]
	copy(o.header[:], packet)
	o.mask.apply(o.header[:], sealed)
	number = rebuild(o.window.next, truncated(o.header[:]))
	switch {
	case o.window.below(number):
		return nil, 0, dropOld
	case o.window.has(number):
		return nil, 0, dropReplay
	}
	keys := o.keys(number)
	if keys == nil {
		return nil, 0, dropKey
	}
	keys.nonce(&o.nonce, number)
	frames, err := keys.aead.Open(sealed[:0], o.nonce[:], sealed, o.header[:])
	if err != nil {
		o.forged++
		return nil, 0, dropForged
	}
	o.window.mark(number)
	o.turn()
	return frames, number, kept
}

// keys returns the generation of a number: the current one, the next, or none.
func (o *opener) keys(number uint64) *generation {
	switch number >> generationBits {
	case o.current.index:
		return o.current
	case o.later.index:
		return o.later
	}
	return nil
}

// turn forgets the current generation when the replay window has left it.
func (o *opener) turn() {
	if o.window.next <= windowSize || (o.window.next-windowSize)>>generationBits <= o.current.index {
		return
	}
	later, err := o.later.next()
	if err != nil {
		return // only the length of a key can be wrong, and it was right before
	}
	o.current, o.later = o.later, later
}
