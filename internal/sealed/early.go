package sealed

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// earlyPackets that no carrier expects are kept for one that is about to begin: a server's first packets come right
	// behind the Welcome with which its client's carrier begins. Thirty peers that come together.
	earlyPackets = 512
	// earlyTime is for how long: a carrier begins at once, but where the Welcome was lost, and comes again after a probe
	// timeout or two.
	earlyTime = time.Second
)

// early keeps the newest packets that came for nobody. Whoever floods a socket has the others' first packets dropped, which
// then open their carriers a round trip later.
type early struct {
	mu      sync.Mutex
	packets []earlyPacket
	next    int // the oldest, when there is room for no more
}

type earlyPacket struct {
	at    time.Time
	from  netip.AddrPort
	id    ID
	bytes []byte
}

// keep copies a packet, in the place of the oldest when there are many.
func (e *early) keep(at time.Time, from netip.AddrPort, id ID, packet []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.packets) < earlyPackets {
		e.packets = append(e.packets, earlyPacket{at, from, id, slices.Clone(packet)})
		return
	}
	p := &e.packets[e.next]
	*p = earlyPacket{at, from, id, append(p.bytes[:0], packet...)}
	e.next = (e.next + 1) % earlyPackets
}

// deliver puts those packets of ids into b that came a moment ago, in the order in which they came, and forgets them and all
// that are older than a moment.
func (e *early) deliver(b *inbox, ids []ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	var others []earlyPacket
	for i := range e.packets {
		p := e.packets[(e.next+i)%len(e.packets)]
		switch {
		case now.Sub(p.at) > earlyTime:
		case slices.Contains(ids, p.id):
			b.put(p.at, p.from, p.bytes)
		default:
			others = append(others, p)
		}
	}
	e.packets, e.next = others, 0
}
