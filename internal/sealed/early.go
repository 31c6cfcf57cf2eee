package sealed

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// earlyPackets is the maximum number of packets with an unknown id that we keep for
	// carriers that don't exist yet. A client creates its carrier when it receives the server's
	// Welcome, and the server's first sealed packets arrive right behind the Welcome. A probe and
	// a train are seventeen packets, so the limit is enough for thirty clients that join at the
	// same time.
	earlyPackets = 512
	// earlyTime is how long we keep such packets. If the Welcome was lost, it is sent again after
	// one or two probe timeouts, and the carrier is created only then.
	earlyTime = time.Second
)

// An earlyBuffer keeps the newest packets whose id is unknown. If a flood of such packets
// displaces the first packets of a carrier, that carrier merely opens a round trip later. It is
// safe for concurrent use.
type earlyBuffer struct {
	mu      sync.Mutex
	packets recovery.Ring[earlyPacket] // at most earlyPackets
}

// An earlyPacket is a packet with an unknown id.
type earlyPacket struct {
	at    time.Time
	from  netip.AddrPort
	id    ID
	bytes []byte
}

// keep stores a copy of a packet. If there are earlyPackets already, the copy replaces the oldest.
func (e *earlyBuffer) keep(at time.Time, from netip.AddrPort, id ID, packet []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.packets.Len() == earlyPackets {
		e.packets.Oldest++
	}
	p := e.packets.Push(1)
	*p = earlyPacket{at, from, id, append(p.bytes[:0], packet...)}
}

// deliver moves the packets for ids to b, in the order in which they arrived. It drops all packets
// that are older than earlyTime.
func (e *earlyBuffer) deliver(b *inbox, ids []ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	all := e.packets
	e.packets = recovery.Ring[earlyPacket]{}
	for n := all.Oldest; n < all.Next; n++ {
		p := all.At(n)
		if now.Sub(p.at) > earlyTime {
			continue
		}
		if !slices.Contains(ids, p.id) {
			*e.packets.Push(1) = *p // the carrier may still be created
			continue
		}
		if b.put(p.at, p.from, p.bytes) {
			b.notify(false)
		}
	}
}
