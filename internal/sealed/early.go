package sealed

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// earlyPackets is how many packets with an unknown id are kept for carriers that are about to begin: a server's first packets
	// come right behind the Welcome with which the client's carrier begins. The number is enough for thirty clients that join together.
	earlyPackets = 512
	// earlyTime is how long they are kept. A carrier begins at once unless the Welcome is lost, and sent again after a probe
	// timeout or two.
	earlyTime = time.Second
)

// early keeps the newest packets whose id is unknown. A flood on the socket pushes the others' first packets out; then their carriers
// open a round trip later.
type early struct {
	mu      sync.Mutex
	packets recovery.Ring[earlyPacket] // at most earlyPackets
}

type earlyPacket struct {
	at    time.Time
	from  netip.AddrPort
	id    ID
	bytes []byte
}

// keep copies a packet, in place of the oldest when there are earlyPackets.
func (e *early) keep(at time.Time, from netip.AddrPort, id ID, packet []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.packets.Len() == earlyPackets {
		e.packets.Oldest++
	}
	p := e.packets.Push(1)
	*p = earlyPacket{at, from, id, append(p.bytes[:0], packet...)}
}

// deliver puts the packets of ids that are not older than earlyTime into b, in the order in which they came. It forgets these and all
// that are older.
func (e *early) deliver(b *inbox, ids []ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, all := time.Now(), e.packets
	e.packets = recovery.Ring[earlyPacket]{}
	for n := all.Oldest; n < all.Next; n++ {
		p := all.At(n)
		switch {
		case now.Sub(p.at) > earlyTime:
		case slices.Contains(ids, p.id):
			if b.put(p.at, p.from, p.bytes) {
				b.look(false)
			}
		default:
			*e.packets.Push(1) = *p
		}
	}
}
