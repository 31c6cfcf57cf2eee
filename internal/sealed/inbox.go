package sealed

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// inboxBytes, 252 KiB, is how many bytes of packets an inbox may always hold, those that are being opened included. The connection's
	// receive limit does not count them, so they are few.
	inboxBytes = 28 * blockBytes
	// lentBytes is how many more all inboxes of a socket may borrow together: 30 ms at 1 Gbit/s, for a machine whose cores are
	// busy. When both are used up the newest packet is dropped. An inbox borrows at most as much as it leaves to others.
	lentBytes = 4 << 20
	// lentStep is how much an inbox borrows at a time.
	lentStep = 64 << 10
	// blockBytes is the size of a block: six full packets, a jumbo packet, or some fifty of play. The inboxes of a thousand clients
	// whose ticks fall together take 9 MiB.
	blockBytes = 9 << 10
	// elsewhereLimit is how many packets a second are taken from other addresses than the QUIC connection's: enough to bridge a
	// change of address until QUIC has seen it, too few to be worth forging.
	elsewhereLimit = 100

	inboxHeader = 2 + 8 // length u16, arrival i64
)

// blocks is the memory of all inboxes: an idle inbox has none, and a busy one grows without copying.
var blocks = sync.Pool{New: func() any { return new(block) }}

// block holds packets in the order in which they came.
type block struct {
	next    *block
	end     int                    // where the records end
	records [blockBytes - 2*8]byte // each is a header of inboxHeader bytes and a packet
}

// append copies a packet into the block. It is false when the packet does not fit, or b is nil.
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

// inbox holds the packets that have arrived for one carrier. The socket's reader puts packets into it, and the carrier takes all of
// them at once; then the reader fills other blocks.
type inbox struct {
	look   func(atOnce bool)              // has the owner take what was put into the empty inbox, at once = on the caller's goroutine
	base   time.Time                      // arrivals in records count from it
	remote atomic.Pointer[netip.AddrPort] // the peer's address, by QUIC
	lent   *atomic.Int64                  // bytes that all inboxes of the socket have borrowed; nil = none may

	mu          sync.Mutex // guards the fields below, up to closed
	first, last *block     // blocks of the packets that wait
	held        int        // bytes of all blocks, including those that take has handed out
	extra       int        // bytes borrowed from the socket
	second      time.Time  // when the second began that others counts
	others      int        // packets from elsewhere in that second
	closed      bool

	strayed         atomic.Bool   // a packet came from elsewhere since the carrier looked
	full, elsewhere atomic.Uint64 // packets that were dropped, by reason
}

func newInbox(look func(atOnce bool)) *inbox { return &inbox{look: look, base: time.Now()} }

// put copies a packet into the inbox, or drops and counts it. It is true for the first packet in an empty inbox: then the caller must call
// look.
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

// isRemote reports whether from is the peer's address. That of a link-local server may have been dialed without a zone, which packets from there
// have.
func (b *inbox) isRemote(from netip.AddrPort) bool {
	remote := b.remote.Load()
	if remote == nil || *remote == from {
		return remote != nil
	}
	zone := from.Addr().Zone()
	return zone != "" && *remote == netip.AddrPortFrom(from.Addr().WithZone(""), from.Port())
}

// grow adds a block, if the inbox may hold one more.
func (b *inbox) grow() bool {
	if b.closed || b.held+blockBytes > inboxBytes+b.extra && !b.borrow() {
		return false
	}
	fresh := blocks.Get().(*block)
	if b.first == nil {
		b.first = fresh
	} else {
		b.last.next = fresh
	}
	b.last = fresh
	b.held += blockBytes
	return true
}

// borrow borrows lentStep of the socket's bytes, if enough are left.
func (b *inbox) borrow() bool {
	if b.lent == nil {
		return false
	}
	if lent := b.lent.Add(lentStep); int64(b.extra+lentStep) > lentBytes-lent {
		b.lent.Add(-lentStep)
		return false
	}
	b.extra += lentStep
	return true
}

// repay gives back borrowed bytes that the blocks no longer need.
func (b *inbox) repay() {
	need := max(b.held-inboxBytes, 0)
	if over := (b.extra - need) / lentStep * lentStep; over > 0 {
		b.lent.Add(-int64(over))
		b.extra -= over
	}
}

// admit counts a packet from elsewhere, and reports whether it is within elsewhereLimit.
func (b *inbox) admit(at time.Time) bool {
	if at.Sub(b.second) >= time.Second || at.Before(b.second) {
		b.second, b.others = at, 0
	}
	b.others++
	b.strayed.Store(true)
	return b.others <= elsewhereLimit
}

// taken are the packets that take has handed out, and which of them is next.
type taken struct {
	first   *block // nil = none
	current *block // has the next packet; nil = all were read
	at      int    // offset of the next packet in current
}

// more reports whether a packet is left to be read.
func (t *taken) more() bool { return t.current != nil }

// take hands out all packets that wait, for [inbox.next]. They belong to the caller until it calls give.
func (b *inbox) take() taken {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.first
	b.first, b.last = nil, nil
	return taken{first: first, current: first}
}

// next returns the next packet of t, which has more.
func (b *inbox) next(t *taken) (at time.Time, packet []byte) {
	record := t.current.records[t.at:]
	at = b.base.Add(time.Duration(binary.NativeEndian.Uint64(record[2:])))
	end := inboxHeader + int(binary.NativeEndian.Uint16(record))
	if t.at += end; t.at == t.current.end {
		t.current, t.at = t.current.next, 0
	}
	return at, record[inboxHeader:end:end]
}

// give gives back the blocks of packets that take has handed out.
func (b *inbox) give(t taken) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(t.first)
	b.repay()
}

// free returns a chain of blocks to the pool.
func (b *inbox) free(first *block) {
	for first != nil {
		next := first.next
		first.next, first.end = nil, 0
		blocks.Put(first)
		first, b.held = next, b.held-blockBytes
	}
}

// empty reports whether nothing waits.
func (b *inbox) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first == nil
}

// close drops the packets that wait, and all that come later. The caller of take must still call give.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(b.first)
	b.closed, b.first, b.last = true, nil, nil
	b.repay()
}

// setRemote sets the peer's address.
func (b *inbox) setRemote(a netip.AddrPort) { b.remote.Store(&a) }
