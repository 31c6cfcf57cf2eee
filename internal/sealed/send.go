package sealed

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/udp"
)

// bursts is a pool of the buffers in which carriers build packets.
var bursts = sync.Pool{New: func() any { return &burst{unsealed: make([]unsealedPacket, 0, burstPackets)} }}

// burstPackets is the number of packets for which a burst has room: those of one call, and
// one more (see collect).
const burstPackets = udp.MaxSegments + 1

// burstBytes is the number of bytes for which a burst has room: seven jumbo packets, the
// maximum that one call may send.
const burstBytes = 63 << 10

// A burst holds packets that were built and were not sent yet.
type burst struct {
	bytes    [burstBytes]byte
	unsealed []unsealedPacket // packets not sealed yet
	groups   [burstPackets]group
	n        int // number of groups
	sent     int // number of groups that were sent
}

// built is a packet that is not sealed yet.
type unsealedPacket struct {
	packet []byte
	number uint64
}

// A group is the part of a burst that one call sends: packets of one size, of which the
// last may be shorter (udp(7), UDP_SEGMENT).
type group struct{ start, end, size int }

// reset empties the burst.
func (b *burst) reset() {
	b.n = 0
	b.sent = 0
	b.unsealed = b.unsealed[:0]
}

// add adds a packet that begins where the previous one ends.
func (b *burst) add(start, end int) {
	if b.n > 0 {
		g := &b.groups[b.n-1]
		length := g.end - g.start
		if length%g.size == 0 && end-start <= g.size && length < udp.MaxSegments*g.size {
			g.end = end
			return
		}
	}
	b.groups[b.n] = group{start, end, end - start}
	b.n++
}

// collect builds packets until there are as many as one call sends, or until the session
// has no more. In the latter case all is true.
//
// After each burst on a busy machine, the pacer holds bulk back. If it does so after as
// many packets as one call sends, collect asks for one more packet. Usually there is none,
// which saves a turn.
//
// Only bulk is sent in jumbo packets.
func (c *Carrier) collect(now time.Time) (all bool) {
	b := c.run.burst
	b.reset()
	jumbo := c.bulk.Load() && !c.config.NoJumbo && c.socket.sys.GSO.Load()
	for at, n := 0, 0; n < burstPackets; n++ {
		if n == udp.MaxSegments && c.session.MaySend(now) {
			return false
		}
		if burstBytes-at < JumboPacket {
			return false
		}
		packet, number, ok := c.session.Build(now, b.bytes[at:at:at+JumboPacket], c.run.maxPacket, jumbo)
		if !ok {
			return true
		}
		b.unsealed = append(b.unsealed, unsealedPacket{packet, number})
		b.add(at, at+len(packet))
		at += len(packet)
	}
	return false
}

// seal seals the packets of the burst, without the lock.
func (c *Carrier) seal() {
	b := c.run.burst
	for _, p := range b.unsealed {
		if err := c.session.Seal(p.packet, p.number); err != nil {
			c.closeWith(err)
			b.reset()
			return
		}
	}
	b.unsealed = b.unsealed[:0]
}

// flush sends the burst. It returns false if the socket accepts no more packets for now.
func (c *Carrier) flush() (ok bool) {
	r := &c.run
	for b := r.burst; b.sent < b.n; b.sent++ {
		g := &b.groups[b.sent]
		n, err := r.writer.Write(b.bytes[g.start:g.end], g.size)
		c.counts.writes.Add(1)
		g.start += n
		if err != nil && !c.writeFailed(err) {
			return false
		}
	}
	return true
}

// refused handles an error of the socket. It reports whether to continue with the next
// group.
func (c *Carrier) writeFailed(err error) bool {
	if errors.Is(err, udp.ErrBlocked) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.session.Blocked(time.Now())
		return false
	}
	c.counts.writeErrors.Add(1)
	if errors.Is(err, net.ErrClosed) {
		c.closeWith(&Error{Reason: "the socket is closed", Cause: err})
	}
	return true
}
