package sealed

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// earlyPackets is the maximum number of packets with an unknown id kept for carriers
	// about to be made. A server's first packets arrive right after the Welcome that makes
	// the client make its carrier. The number is enough for thirty clients that join
	// together.
	earlyPackets = 512
	// earlyTime is how long they are kept. A carrier is made at once unless the Welcome is
	// lost. It is then sent again after a probe timeout or two.
	earlyTime = time.Second
)

// early keeps the newest packets whose id is unknown. A flood of such packets displaces a
// carrier's first packets. The carrier then opens a round trip later.
type early struct {
	mu      sync.Mutex
	packets recovery.Ring[earlyPacket] // at most earlyPackets
}

// earlyPacket is a packet, its time of arrival, its source and its id.
type earlyPacket struct {
	at    time.Time
	from  netip.AddrPort
	id    ID
	bytes []byte
}

// keep copies a packet. If there are already earlyPackets, it replaces the oldest.
func (e *early) keep(at time.Time, from netip.AddrPort, id ID, packet []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.packets.Len() == earlyPackets {
		e.packets.Oldest++
	}
	p := e.packets.Push(1)
	*p = earlyPacket{at, from, id, append(p.bytes[:0], packet...)}
}

// deliver puts the packets for ids that are at most earlyTime old into b, in the order of
// their arrival. It removes them and all older packets.
func (e *early) deliver(b *inbox, ids []ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	all := e.packets
	e.packets = recovery.Ring[earlyPacket]{}
	for n := all.Oldest; n < all.Next; n++ {
		p := all.At(n)
		switch {
		case now.Sub(p.at) > earlyTime:
		case slices.Contains(ids, p.id):
			if b.put(p.at, p.from, p.bytes) {
				b.notify(false)
			}
		default:
			*e.packets.Push(1) = *p
		}
	}
}
