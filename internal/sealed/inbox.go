package sealed

import (
	"encoding/binary"
	"net/netip"
	"slices"
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
	// keptSpare is the most that is kept of an emptied slab while the other one fills, which may become as large as inboxBytes.
	keptSpare = inboxBytes * 3 / 4
	// keptInbox is the most memory that an idle carrier keeps.
	keptInbox = 4 << 10
	// elsewhereLimit packets a second are taken from addresses that are not the QUIC connection's: enough to live through a
	// change of address until QUIC has seen it, too few to be worth forging.
	elsewhereLimit = 100

	inboxHeader = 2 + 8 // length u16, arrival i64
)

// inbox holds the packets that arrived for one carrier. The socket's reader puts, the carrier takes: all there are, while
// the reader fills other memory.
type inbox struct {
	wake   func() // called without mu when the first packet is put
	base   time.Time
	remote atomic.Pointer[netip.AddrPort]
	lent   *atomic.Int64 // bytes that inboxes of the socket have borrowed; nil = there are none to borrow

	mu     sync.Mutex
	slab   []byte // of records: header, packet
	spare  []byte // empty
	opened int    // bytes that take has handed out
	extra  int    // borrowed from lent
	second time.Time
	others int // packets from elsewhere in that second
	closed bool

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
	if b.closed || b.opened+len(b.slab)+inboxHeader+len(packet) > inboxBytes+b.extra && !b.borrow() {
		b.mu.Unlock()
		b.full.Add(1)
		return
	}
	first := len(b.slab) == 0
	if n := len(b.slab) + inboxHeader + len(packet); n > cap(b.slab) {
		// By half, but never beyond what may wait: append adds a quarter to a large one, and copies all five times on its way.
		b.slab = slices.Grow(b.slab, min(n+n/2, inboxBytes+b.extra-b.opened)-len(b.slab))
	}
	b.slab = binary.NativeEndian.AppendUint16(b.slab, uint16(len(packet)))
	b.slab = binary.NativeEndian.AppendUint64(b.slab, uint64(at.Sub(b.base)))
	b.slab = append(b.slab, packet...)
	b.mu.Unlock()
	if first {
		b.wake()
	}
}

// borrow gets room for more packets, if the socket has some left: for half of those that wait, so that the slab is not copied for each
// step.
func (b *inbox) borrow() bool {
	half := (b.opened + len(b.slab)) / 2 / lentStep * lentStep
	return half > lentStep && b.lend(half) || b.lend(lentStep)
}

// lend takes so many bytes of what the socket has to lend to its inboxes, if they are left.
func (b *inbox) lend(bytes int) bool {
	if b.lent == nil {
		return false
	}
	if lent := b.lent.Add(int64(bytes)); int64(b.extra+bytes) > lentBytes-lent {
		b.lent.Add(-int64(bytes))
		return false
	}
	b.extra += bytes
	return true
}

// repay gives back what the packets do not need that wait now.
func (b *inbox) repay() {
	need := max(b.opened+len(b.slab)-inboxBytes, 0)
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

// take returns all packets that wait, for [inbox.next]. They are the caller's until it calls give.
func (b *inbox) take() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	slab := b.slab
	b.slab, b.spare, b.opened = b.spare, nil, len(slab)
	return slab
}

// next returns the first packet of a slab, and the rest.
func (b *inbox) next(slab []byte) (at time.Time, packet, rest []byte) {
	end := inboxHeader + int(binary.NativeEndian.Uint16(slab))
	at = b.base.Add(time.Duration(binary.NativeEndian.Uint64(slab[2:])))
	return at, slab[inboxHeader:end:end], slab[end:]
}

// give returns the memory of a slab.
func (b *inbox) give(slab []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened = 0; cap(slab) <= keptSpare {
		b.spare = slab[:0]
	}
	b.repay()
}

// rest gives back memory that an idle carrier does not need, and reports whether nothing waits.
func (b *inbox) rest() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.slab) > 0 {
		return false
	}
	b.spare = nil
	if cap(b.slab) > keptInbox {
		b.slab = nil
	}
	return true
}

// close drops what waits and all that comes.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.slab, b.spare, b.opened = true, nil, nil, 0
	b.repay()
}

// setRemote says where packets come from.
func (b *inbox) setRemote(a netip.AddrPort) { b.remote.Store(&a) }
