package sealed

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// inboxBytes of packets may wait in an inbox or be being opened, whatever others do. It is held beside what the
	// connection's receive limit counts, so it is small.
	inboxBytes = 256 << 10
	// lentBytes more are a socket's, for all its carriers together: 30 ms at 1 Gbit/s, for a machine whose cores are busy.
	// Past both the newest packet is dropped. One inbox borrows no more than it leaves to others.
	lentBytes = 4 << 20
	// lentStep is how many of them an inbox borrows at a time.
	lentStep = 64 << 10
	// blockBytes hold five full packets, or some fifty of play: a thousand clients whose ticks fall together take 8 MiB.
	blockBytes = 8 << 10
	// elsewhereLimit packets a second are taken from addresses that are not the QUIC connection's: enough to live through a
	// change of address until QUIC has seen it, too few to be worth forging.
	elsewhereLimit = 100

	inboxHeader = 2 + 8 // length u16, arrival i64
)

// blocks are memory for packets that wait, which all inboxes share: an idle one has none, and a busy one copies nothing to grow.
var blocks = sync.Pool{New: func() any { return new(block) }}

// block holds packets in the order in which they came.
type block struct {
	next    *block
	end     int                    // of the records
	records [blockBytes - 2*8]byte // header, packet
}

// append copies a packet in. Not ok: it does not fit.
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

// inbox holds the packets that arrived for one carrier. The socket's reader puts, the carrier takes: all there are, while
// the reader fills other memory.
type inbox struct {
	wake   func() // called without mu when the first packet is put
	base   time.Time
	remote atomic.Pointer[netip.AddrPort]
	lent   *atomic.Int64 // bytes that inboxes of the socket have borrowed; nil = there are none to borrow

	mu          sync.Mutex
	first, last *block // of the packets that wait
	held        int    // bytes of blocks, with those that take has handed out
	extra       int    // borrowed from lent
	second      time.Time
	others      int // packets from elsewhere in that second
	closed      bool

	full, elsewhere atomic.Uint64 // dropped
}

func newInbox(wake func()) *inbox { return &inbox{wake: wake, base: time.Now()} }

// put copies a packet in, or drops and counts it.
func (b *inbox) put(at time.Time, from netip.AddrPort, packet []byte) {
	b.mu.Lock()
	if remote := b.remote.Load(); (remote == nil || *remote != from) && !b.admit(at) {
		b.mu.Unlock()
		b.elsewhere.Add(1)
		return
	}
	first, came := b.first == nil, at.Sub(b.base)
	if !b.last.append(came, packet) && (!b.grow() || !b.last.append(came, packet)) {
		b.mu.Unlock()
		b.full.Add(1)
		return
	}
	b.mu.Unlock()
	if first {
		b.wake()
	}
}

// grow adds a block, if there may be one more.
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

// borrow takes some of what the socket has to lend to its inboxes, if it is left.
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

// repay gives back what the packets do not need that wait now.
func (b *inbox) repay() {
	need := max(b.held-inboxBytes, 0)
	if over := (b.extra - need) / lentStep * lentStep; over > 0 {
		b.lent.Add(-int64(over))
		b.extra -= over
	}
}

// admit counts a packet from elsewhere.
func (b *inbox) admit(at time.Time) bool {
	if at.Sub(b.second) >= time.Second || at.Before(b.second) {
		b.second, b.others = at, 0
	}
	b.others++
	return b.others <= elsewhereLimit
}

// taken are packets that an inbox handed out, up to the one that is next.
type taken struct {
	first   *block // nil = none are handed out
	current *block // nil = all are read
	at      int    // in current
}

// more reports whether a packet is left.
func (t *taken) more() bool { return t.current != nil }

// take returns all packets that wait, for [inbox.next]. They are the caller's until it calls give.
func (b *inbox) take() taken {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.first
	b.first, b.last = nil, nil
	return taken{first: first, current: first}
}

// next returns the next of the packets that t has more of.
func (b *inbox) next(t *taken) (at time.Time, packet []byte) {
	record := t.current.records[t.at:]
	at = b.base.Add(time.Duration(binary.NativeEndian.Uint64(record[2:])))
	end := inboxHeader + int(binary.NativeEndian.Uint16(record))
	if t.at += end; t.at == t.current.end {
		t.current, t.at = t.current.next, 0
	}
	return at, record[inboxHeader:end:end]
}

// give returns the memory of packets that are read.
func (b *inbox) give(t taken) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(t.first)
	b.repay()
}

// free gives blocks up.
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

// close drops what waits and all that comes. What is handed out is to be given back.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(b.first)
	b.closed, b.first, b.last = true, nil, nil
	b.repay()
}

// setRemote says where packets come from.
func (b *inbox) setRemote(a netip.AddrPort) { b.remote.Store(&a) }
