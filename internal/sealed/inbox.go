package sealed

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// inboxBytes is the number of bytes that an inbox may hold without borrowing, 252 KiB. They
	// include packets that the carrier is opening. The number is small because the connection's
	// receive limit doesn't cover these bytes.
	inboxBytes = 28 * blockBytes
	// maxBorrowed is the maximum number of bytes beyond inboxBytes that all inboxes of a socket
	// may borrow together. It's enough for the packets that arrive in 30 ms at 1 Gbit/s while the
	// machine's cores are busy. An inbox may borrow at most as much as it leaves to the others.
	// A packet for which there's no room is dropped.
	maxBorrowed = 4 << 20
	// An inbox borrows borrowStep bytes at a time, so that it rarely has to touch the counter that
	// all inboxes share.
	borrowStep = 64 << 10
	// blockBytes is the size of a block. It holds six full packets, one jumbo packet, or about
	// fifty packets of play (the game's own traffic). The inboxes of a thousand clients whose
	// ticks coincide take 9 MiB.
	blockBytes = 9 << 10
	// maxFromOthers is the number of packets per second that we accept from addresses other
	// than the peer address of the QUIC connection. It's enough to keep the carrier alive until
	// QUIC notices that the address has changed, but too few for an attacker to be worth forging.
	maxFromOthers = 100

	inboxHeader = 2 + 8 // length u16, arrival i64
)

// blocks is the memory of all inboxes. An idle inbox has no block, and a busy one grows block
// by block without copying.
var blocks = sync.Pool{New: func() any { return new(block) }}

// A block holds packets in the order in which they arrived.
type block struct {
	next    *block
	end     int                    // where the records end
	records [blockBytes - 2*8]byte // each is a header of inboxHeader bytes and a packet
}

// fits reports whether there's room for a packet in b, which may be nil.
func (b *block) fits(packet []byte) bool {
	return b != nil && inboxHeader+len(packet) <= len(b.records)-b.end
}

// add copies a packet into the block. It must fit.
func (b *block) add(at time.Duration, packet []byte) {
	record := b.records[b.end:]
	binary.NativeEndian.PutUint16(record, uint16(len(packet)))
	binary.NativeEndian.PutUint64(record[2:], uint64(at))
	copy(record[inboxHeader:], packet)
	b.end += inboxHeader + len(packet)
}

// An inbox holds the packets that have arrived for a carrier. The socket's reader puts them in
// one by one. The carrier takes all of them at once and opens them, while the reader fills other
// blocks.
//
// put and take, and the methods that take mu, are safe for concurrent use.
type inbox struct {
	// notify is called after a packet was put into an empty inbox, so that the owner takes the
	// packets. If inline is true, it may do so on the calling goroutine.
	notify func(inline bool)
	base   time.Time                      // zero of the arrival times in records
	remote atomic.Pointer[netip.AddrPort] // the peer's address, as QUIC knows it
	// The total number of bytes that the socket's inboxes have borrowed. It is nil if this inbox
	// may not borrow.
	allBorrowed *atomic.Int64

	mu          sync.Mutex // guards the fields below, up to closed
	first, last *block     // blocks with packets that haven't been taken
	heldBytes   int        // size of all blocks, including those that take has handed out
	borrowed    int        // bytes borrowed from the socket
	othersSince time.Time  // start of the second for othersCount
	othersCount int        // packets from other addresses in that second
	closed      bool

	sawOther atomic.Bool // a packet has arrived from another address; cleared by the carrier

	// Packets dropped because there was no room, and because of maxFromOthers.
	droppedFull, droppedFromOthers atomic.Uint64
}

// newInbox returns an inbox that may not borrow. See also Socket.newInbox.
func newInbox(notify func(inline bool)) *inbox { return &inbox{notify: notify, base: time.Now()} }

// setRemote sets the peer's address. It is called when QUIC has a new one.
func (b *inbox) setRemote(a netip.AddrPort) { b.remote.Store(&a) }

// put copies a packet into the inbox, or drops the packet and counts it. It returns true if the
// inbox was empty, in which case the caller must call notify.
func (b *inbox) put(at time.Time, from netip.AddrPort, packet []byte) (wasEmpty bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isRemote(from) && !b.admit(at) {
		b.droppedFromOthers.Add(1)
		return false
	}
	wasEmpty = b.first == nil
	if !b.last.fits(packet) && !b.grow() {
		b.droppedFull.Add(1)
		return false
	}
	b.last.add(at.Sub(b.base), packet)
	return wasEmpty
}

// isRemote reports whether from is the peer's address.
func (b *inbox) isRemote(from netip.AddrPort) bool {
	remote := b.remote.Load()
	if remote == nil {
		return false
	}
	if *remote == from {
		return true
	}
	// A link-local server may have been dialed without a zone, but its packets come from an
	// address with one.
	zone := from.Addr().Zone()
	return zone != "" && *remote == netip.AddrPortFrom(from.Addr().WithZone(""), from.Port())
}

// admit counts a packet from another address. It returns false if there were more than
// maxFromOthers within a second. The caller holds mu.
func (b *inbox) admit(at time.Time) bool {
	if at.Sub(b.othersSince) >= time.Second || at.Before(b.othersSince) {
		b.othersSince = at
		b.othersCount = 0
	}
	b.othersCount++
	b.sawOther.Store(true)
	return b.othersCount <= maxFromOthers
}

// grow adds a block, borrowing bytes for it if necessary. It returns false if the inbox is closed
// or may not hold another block. The caller holds mu.
func (b *inbox) grow() (ok bool) {
	if b.closed {
		return false
	}
	if b.heldBytes+blockBytes > inboxBytes+b.borrowed && !b.borrow() {
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

// borrow borrows borrowStep bytes from the socket, if enough are left. The caller holds mu.
func (b *inbox) borrow() (ok bool) {
	if b.allBorrowed == nil {
		return false
	}
	all := b.allBorrowed.Add(borrowStep)
	if leftToOthers := maxBorrowed - all; int64(b.borrowed+borrowStep) > leftToOthers {
		b.allBorrowed.Add(-borrowStep)
		return false
	}
	b.borrowed += borrowStep
	return true
}

// repay returns borrowed bytes that are no longer needed. The caller holds mu.
func (b *inbox) repay() {
	need := max(b.heldBytes-inboxBytes, 0)
	if surplus := (b.borrowed - need) / borrowStep * borrowStep; surplus > 0 {
		b.allBorrowed.Add(-int64(surplus))
		b.borrowed -= surplus
	}
}

// A packetCursor is a position in the packets that take has handed out.
type packetCursor struct {
	first   *block // nil if there are no packets
	current *block // the block of the next packet; nil after the last one
	offset  int    // of the next packet in current
}

// more reports whether there is a next packet.
func (c *packetCursor) more() bool { return c.current != nil }

// take removes all packets from the inbox. The caller reads them with next and then must call
// release.
func (b *inbox) take() packetCursor {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.first
	b.first = nil
	b.last = nil
	return packetCursor{first: first, current: first}
}

// next returns the next packet and when it arrived. There must be one. The packet is valid
// until release.
func (b *inbox) next(c *packetCursor) (at time.Time, packet []byte) {
	record := c.current.records[c.offset:]
	at = b.base.Add(time.Duration(binary.NativeEndian.Uint64(record[2:])))
	end := inboxHeader + int(binary.NativeEndian.Uint16(record))
	c.offset += end
	if c.offset == c.current.end {
		c.current = c.current.next
		c.offset = 0
	}
	return at, record[inboxHeader:end:end]
}

// release gives back the blocks that take handed out.
func (b *inbox) release(c packetCursor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(c.first)
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

// close drops the packets in the inbox and all later ones. Packets that were taken must still be
// released.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(b.first)
	b.first = nil
	b.last = nil
	b.closed = true
	b.repay()
}
