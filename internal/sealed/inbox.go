package sealed

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// inboxBytes is the number of bytes of packets that an inbox may always hold, 252 KiB.
	// It includes packets that the carrier is opening. It is small because the connection's
	// receive limit does not cover these bytes.
	inboxBytes = 28 * blockBytes
	// lentBytes is the number of bytes that all inboxes of a socket may borrow together
	// beyond that. As many arrive in 30 ms at 1 Gbit/s, while the machine's cores are busy.
	// An inbox borrows at most as much as it leaves to others. If there is no room for a
	// packet, it is dropped.
	maxBorrowed = 4 << 20
	// lentStep is the number of bytes that an inbox borrows at a time.
	borrowStep = 64 << 10
	// blockBytes is the size of a block. It holds six full packets, one jumbo packet, or
	// about fifty packets of play. The inboxes of a thousand clients whose ticks coincide
	// take 9 MiB.
	blockBytes = 9 << 10
	// elsewhereLimit is the number of packets accepted per second from addresses other than
	// that of the QUIC connection. It is enough until QUIC notices a change of address, and
	// too few to be worth forging.
	maxElsewhere = 100

	inboxHeader = 2 + 8 // length u16, arrival i64
)

// blocks is the memory of all inboxes. An idle inbox has no block, and a busy one grows
// block by block without copying.
var blocks = sync.Pool{New: func() any { return new(block) }}

// A block holds packets in the order in which they arrived.
type block struct {
	next    *block
	end     int                    // where the records end
	records [blockBytes - 2*8]byte // each is a header of inboxHeader bytes and a packet
}

// append copies a packet into the block. It returns false if the packet does not fit or b
// is nil.
func (b *block) append(at time.Duration, packet []byte) (ok bool) {
	n := inboxHeader + len(packet)
	if b == nil || len(b.records)-b.end < n {
		return false
	}
	record := b.records[b.end:]
	binary.NativeEndian.PutUint16(record, uint16(len(packet)))
	binary.NativeEndian.PutUint64(record[2:], uint64(at))
	copy(record[inboxHeader:], packet)
	b.end += n
	return true
}

// An inbox holds the packets that have arrived for one carrier. The socket's reader puts
// packets into it. The carrier takes all of them at once, while the reader continues with
// other blocks.
type inbox struct {
	// look is called after put into an empty inbox. It makes the owner take packets, on
	// this goroutine if atOnce.
	notify func(atOnce bool)
	base   time.Time                      // the origin of the arrival times in records
	remote atomic.Pointer[netip.AddrPort] // the peer's address, as QUIC knows it
	// Bytes that all inboxes of the socket have borrowed; nil = this inbox may not borrow.
	allBorrowed *atomic.Int64

	mu          sync.Mutex // guards the fields below, up to closed
	first, last *block     // blocks with packets that were not taken yet
	heldBytes   int        // bytes of all blocks, including those that take has handed out
	borrowed    int        // bytes borrowed from the socket
	othersSince time.Time  // the beginning of the second in which others counts
	others      int        // packets from other addresses in that second
	closed      bool

	sawOther        atomic.Bool   // a packet arrived from another address; cleared by the carrier
	full, elsewhere atomic.Uint64 // packets dropped for lack of room, and by elsewhereLimit
}

// newInbox returns an inbox that calls look.
func newInbox(look func(atOnce bool)) *inbox { return &inbox{notify: look, base: time.Now()} }

// put copies a packet into the inbox, or drops and counts it. It returns true if the inbox
// was empty. The caller must then call look.
func (b *inbox) put(at time.Time, from netip.AddrPort, packet []byte) (first bool) {
	b.mu.Lock()
	if !b.isRemote(from) && !b.admit(at) {
		b.mu.Unlock()
		b.elsewhere.Add(1)
		return false
	}
	came := at.Sub(b.base)
	first = b.first == nil
	if !b.last.append(came, packet) && (!b.grow() || !b.last.append(came, packet)) {
		b.mu.Unlock()
		b.full.Add(1)
		return false
	}
	b.mu.Unlock()
	return first
}

// isRemote reports whether from is the peer's address. A link-local server may have been
// dialed without a zone, but its packets come from an address with one. The zone is ignored
// in that case.
func (b *inbox) isRemote(from netip.AddrPort) bool {
	remote := b.remote.Load()
	if remote == nil || *remote == from {
		return remote != nil
	}
	zone := from.Addr().Zone()
	return zone != "" && *remote == netip.AddrPortFrom(from.Addr().WithZone(""), from.Port())
}

// grow adds a block, or returns false if the inbox may not hold any more. The caller holds
// mu.
func (b *inbox) grow() bool {
	if b.closed || b.heldBytes+blockBytes > inboxBytes+b.borrowed && !b.borrow() {
		return false
	}
	fresh := blocks.Get().(*block)
	if b.first == nil {
		b.first = fresh
	} else {
		b.last.next = fresh
	}
	b.last = fresh
	b.heldBytes += blockBytes
	return true
}

// borrow borrows lentStep of the socket's bytes, if enough are left. The caller holds mu.
func (b *inbox) borrow() bool {
	if b.allBorrowed == nil {
		return false
	}
	if lent := b.allBorrowed.Add(borrowStep); int64(b.borrowed+borrowStep) > maxBorrowed-lent {
		b.allBorrowed.Add(-borrowStep)
		return false
	}
	b.borrowed += borrowStep
	return true
}

// repay returns borrowed bytes that are no longer needed. The caller holds mu.
func (b *inbox) repay() {
	need := max(b.heldBytes-inboxBytes, 0)
	if over := (b.borrowed - need) / borrowStep * borrowStep; over > 0 {
		b.allBorrowed.Add(-int64(over))
		b.borrowed -= over
	}
}

// admit counts a packet from another address and reports whether it is within
// elsewhereLimit. The caller holds mu.
func (b *inbox) admit(at time.Time) bool {
	if at.Sub(b.othersSince) >= time.Second || at.Before(b.othersSince) {
		b.othersSince = at
		b.others = 0
	}
	b.others++
	b.sawOther.Store(true)
	return b.others <= maxElsewhere
}

// taken is the sequence of packets that take handed out, and a position in it.
type packetCursor struct {
	first   *block // nil = no packets
	current *block // the block of the next packet; nil = all packets were read
	at      int    // offset of the next packet in current
}

// more reports whether there is a next packet.
func (t *packetCursor) more() bool { return t.current != nil }

// take removes all packets from the inbox, to be read with [inbox.next]. They belong to the
// caller until it calls give.
func (b *inbox) take() packetCursor {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.first
	b.first = nil
	b.last = nil
	return packetCursor{first: first, current: first}
}

// next returns the next packet of t and its time of arrival. t.more must be true.
func (b *inbox) next(t *packetCursor) (at time.Time, packet []byte) {
	record := t.current.records[t.at:]
	at = b.base.Add(time.Duration(binary.NativeEndian.Uint64(record[2:])))
	end := inboxHeader + int(binary.NativeEndian.Uint16(record))
	t.at += end
	if t.at == t.current.end {
		t.current = t.current.next
		t.at = 0
	}
	return at, record[inboxHeader:end:end]
}

// give returns the blocks that take handed out.
func (b *inbox) release(t packetCursor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(t.first)
	b.repay()
}

// free returns a chain of blocks to the pool. The caller holds mu.
func (b *inbox) free(first *block) {
	for first != nil {
		next := first.next
		first.next = nil
		first.end = 0
		blocks.Put(first)
		b.heldBytes -= blockBytes
		first = next
	}
}

// empty reports whether the inbox has no packets.
func (b *inbox) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first == nil
}

// close drops the packets in the inbox and all later ones. Packets that were taken must
// still be given back.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(b.first)
	b.first = nil
	b.last = nil
	b.closed = true
	b.repay()
}

// setRemote sets the peer's address. It is called when QUIC has a new one.
func (b *inbox) setRemote(a netip.AddrPort) { b.remote.Store(&a) }
