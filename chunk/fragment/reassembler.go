package fragment

import (
	"time"

	"github.com/quivernet/quiver/internal/bits"
)

// maxAhead is how far a sequence may be ahead of the newest block, as in the article's code.
const maxAhead = 1024

// A Block is a received block as the sender passed it to Split, or a regular packet.
type Block struct {
	Sequence uint16
	Data     []byte
}

// A Reassembler puts the blocks of one peer back together.
//
// It never waits for a block: each is returned as soon as it is complete, and dropped if it is
// still incomplete after Config.Lifetime, or when newer ones need its place.
//
// A Reassembler has no clock, so its methods take the time. A now earlier than that of a previous
// call counts as the previous one. It is not safe for concurrent use.
type Reassembler struct {
	cfg   Config // effective
	stats Stats
	now   time.Time // latest time passed to a method

	// The sequence buffer: block n is in entries[n % Window].
	entries      [Window]entry
	newest       uint16    // newest sequence accepted
	lastAccepted time.Time // when a packet was last accepted; zero = none yet

	// Incomplete blocks, in the order in which their first fragments arrived.
	first, last uint16 // ends of their linked list, as indexes of entries; none if it's empty
	cells       pool   // their fragments

	out []byte // the last block returned; reused for the next one
}

// NewReassembler returns a reassembler. It returns the error of Config.Validate
// if cfg is invalid.
func NewReassembler(cfg Config) (*Reassembler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.effective()
	r := &Reassembler{cfg: cfg, first: none, last: none, cells: newPool(cfg.MaxBytes / Size)}
	for i := range r.entries {
		r.entries[i].clear()
	}
	return r, nil
}

// Receive handles a packet and returns the block that it completes, if any. An error says why the
// packet was dropped, and does no harm to the Reassembler.
//
// Receive does not keep the packet, although a block of one fragment aliases it. The Data of any
// other block is valid until the next call of Receive or Advance.
func (r *Reassembler) Receive(now time.Time, packet []byte) (b Block, ok bool, err error) {
	r.Advance(now)
	r.stats.Packets++
	b, ok, err = r.receive(packet)
	if err != nil {
		r.stats.countRefused(err)
	}
	return b, ok, err
}

// receive is Receive without the clock and the counting of errors.
func (r *Reassembler) receive(packet []byte) (Block, bool, error) {
	f, err := Parse(packet, r.cfg.ProtocolID)
	switch {
	case err == ErrRegular && r.cfg.Regular:
		// Treat the packet as the only fragment of a block.
		f.Count, f.Data = 1, packet
		err = checkRegular(packet)
	case err == nil && f.Count > r.cfg.MaxFragments:
		err = ErrTooMany
	}
	if err != nil {
		return Block{}, false, err
	}
	e, err := r.admit(f)
	if err != nil {
		return Block{}, false, err
	}
	r.lastAccepted = r.now
	r.stats.Fragments++
	if f.Count == 1 {
		e.begin(f, r.now)
		e.state = delivered
		r.stats.Blocks++
		return Block{f.Sequence, f.Data}, true, nil
	}
	return r.store(e, f)
}

// admit returns the entry for a fragment's block, after it has moved the window if necessary. It
// returns an error if we already have the fragment, or if its block is too old or too far ahead.
func (r *Reassembler) admit(f Fragment) (*entry, error) {
	if err := r.slide(f.Sequence); err != nil {
		return nil, err
	}
	e := &r.entries[f.Sequence%Window]
	switch {
	case e.state == empty:
		return e, nil
	case e.count != uint8(f.Count):
		return nil, ErrMismatch
	case e.state == dropped:
		return nil, ErrStale
	case e.state == delivered || e.has(f.Index):
		return nil, ErrDuplicate
	}
	return e, nil
}

// slide moves the window up to sequence if that is newer than the newest block, and drops the
// blocks that leave it. It returns an error if sequence is too far away to be accepted.
//
// After Lifetime without a packet, any sequence begins a new window, because a sender that has
// continued during an outage may be at any number.
func (r *Reassembler) slide(sequence uint16) error {
	ahead := bits.Distance(sequence, r.newest)
	within := ahead > -Window && ahead <= maxAhead
	first := r.lastAccepted.IsZero()
	silent := r.now.Sub(r.lastAccepted) > r.cfg.Lifetime
	switch {
	case first, silent && !within:
		// Begin a new window, of which sequence is the newest block.
		r.newest = sequence - Window
		ahead = Window
	case ahead > maxAhead:
		return ErrAhead
	case ahead <= -Window:
		return ErrStale
	}
	for n := range max(0, min(ahead, Window)) {
		r.reuse(&r.entries[(sequence-uint16(n))%Window])
	}
	if ahead > 0 {
		r.newest = sequence
	}
	return nil
}

// reuse empties an entry so that a newer block can use it.
func (r *Reassembler) reuse(e *entry) {
	if e.state == partial {
		r.drop(e)
		r.stats.Passed++
	}
	e.clear()
}

// link appends e to the list of incomplete blocks.
func (r *Reassembler) link(e *entry) {
	slot := e.sequence % Window
	e.prev = r.last
	if r.last == none {
		r.first = slot
	} else {
		r.entries[r.last].next = slot
	}
	r.last = slot
}

// drop frees the cells of an incomplete block and removes it from the list. The entry remembers
// the block, so that we reject any other fragments of it.
func (r *Reassembler) drop(e *entry) {
	r.cells.put(e.head)
	if e.prev == none {
		r.first = e.next
	} else {
		r.entries[e.prev].next = e.next
	}
	if e.next == none {
		r.last = e.prev
	} else {
		r.entries[e.next].prev = e.prev
	}
	e.head = none
	e.prev, e.next = none, none
	e.state = dropped
}

// store stores a fragment in its block, and returns the block if it is now complete.
func (r *Reassembler) store(e *entry, f Fragment) (Block, bool, error) {
	if e.state == empty {
		e.begin(f, r.now)
		r.link(e)
	}
	c, ok := r.cells.take()
	for !ok {
		r.evict(e)
		c, ok = r.cells.take()
	}
	copy(r.cells.bytes(c), f.Data)
	r.cells.cells[c] = cell{next: e.head, index: uint8(f.Index)}
	e.add(f, c)
	if e.got < e.count {
		return Block{}, false, nil
	}
	return r.finish(e), true, nil
}

// evict drops the block that was begun first, but not keep, which needs the room. There always is
// another block, since keep alone never exceeds MaxBytes.
func (r *Reassembler) evict(keep *entry) {
	e := &r.entries[r.first]
	if e == keep {
		e = &r.entries[e.next]
	}
	r.drop(e)
	r.stats.Evicted++
}

// finish copies the fragments of a complete block to r.out and frees their cells.
func (r *Reassembler) finish(e *entry) Block {
	size := (int(e.count)-1)*Size + int(e.tail)
	r.reserve(int(e.count))
	out := r.out[:size]
	for c := e.head; c != none; c = r.cells.cells[c].next {
		copy(out[int(r.cells.cells[c].index)*Size:], r.cells.bytes(c))
	}
	r.drop(e)
	e.state = delivered // rather than dropped
	r.stats.Blocks++
	return Block{e.sequence, out}
}

// reserve makes room in r.out for a block of count fragments. If that needs more memory, it at
// least doubles it, so that blocks of growing sizes cause little garbage.
func (r *Reassembler) reserve(count int) {
	if len(r.out) < count*Size {
		r.out = make([]byte, min(max(count, 2*len(r.out)/Size), r.cfg.MaxFragments)*Size)
	}
}

// Advance drops incomplete blocks that are older than Lifetime. If no packet has been accepted for
// that long, it also frees memory.
func (r *Reassembler) Advance(now time.Time) {
	if now.After(r.now) {
		r.now = now
	}
	for r.first != none && r.now.Sub(r.entries[r.first].begunAt) > r.cfg.Lifetime {
		r.drop(&r.entries[r.first])
		r.stats.Expired++
	}
	if r.holds() && r.now.Sub(r.lastAccepted) > r.cfg.Lifetime {
		r.cells.release()
		r.out = nil
	}
}

// NextTimeout returns when Advance must be called again. ok is false if it need not be.
func (r *Reassembler) NextTimeout() (at time.Time, ok bool) {
	switch {
	case r.first != none:
		return r.entries[r.first].begunAt.Add(r.cfg.Lifetime + 1), true
	case r.holds():
		return r.lastAccepted.Add(r.cfg.Lifetime + 1), true
	}
	return time.Time{}, false
}

// holds reports whether we hold memory that Advance will have to free.
func (r *Reassembler) holds() bool { return r.cells.cells != nil || r.out != nil }

// Stats returns a copy of the counters.
func (r *Reassembler) Stats() Stats { return r.stats }
