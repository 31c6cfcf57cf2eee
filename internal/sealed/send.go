package sealed

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/udp"
)

const (
	// burstPackets is the maximum number of packets in a burst, which is one more than a call can
	// send (see collect).
	burstPackets = udp.MaxSegments + 1
	// burstBytes is the maximum number of bytes in a burst. It's seven jumbo packets, the most
	// that one call can send.
	burstBytes = 63 << 10
)

// bursts is a pool of the buffers in which carriers build packets.
var bursts = sync.Pool{New: func() any {
	return &burst{unsealed: make([]unsealedPacket, 0, burstPackets)}
}}

// A burst holds packets that have been built but not sent. They are written in groups, with
// one call per group.
type burst struct {
	bytes    [burstBytes]byte
	unsealed []unsealedPacket // packets that haven't been sealed yet; they point into bytes
	groups   [burstPackets]group
	n        int // groups in use
	sent     int // groups that have been sent
}

// An unsealedPacket is a packet that hasn't been sealed yet.
type unsealedPacket struct {
	packet []byte
	number uint64
}

// A group is the part of a burst that one call sends: packets of the same size, except that the
// last may be shorter (udp(7), UDP_SEGMENT).
type group struct{ start, end, size int }

// reset empties the burst.
func (b *burst) reset() {
	b.n = 0
	b.sent = 0
	b.unsealed = b.unsealed[:0]
}

// isSent reports whether there's nothing left to send.
func (b *burst) isSent() bool { return b.sent == b.n }

// add adds the packet in bytes[start:end], which begins where the previous one ends, to the last
// group if its size permits, and otherwise to a new one.
func (b *burst) add(start, end int) {
	size := end - start
	if b.n > 0 {
		g := &b.groups[b.n-1]
		length := g.end - g.start
		noneShorter := length%g.size == 0
		if noneShorter && size <= g.size && length < udp.MaxSegments*g.size {
			g.end = end
			return
		}
	}
	b.groups[b.n] = group{start, end, size}
	b.n++
}

// collect builds the packets of a burst, until there are as many as one call can send or the
// session has no more. all is true if the session has no more.
func (c *Carrier) collect(now time.Time) (all bool) {
	b := c.run.burst
	b.reset()
	// Only bulk is sent in jumbo packets.
	jumbo := c.bulk.Load() && c.mayUseJumbo()
	at := 0
	for n := range burstPackets {
		if n == udp.MaxSegments && c.session.MaySend(now) {
			// The session has more to send than fits into one call.
			//
			// On a busy machine the pacer stops bulk after exactly this many packets. In that
			// case we go on and ask the session for another packet. Usually there is none, so
			// all is true, which saves a turn.
			return false
		}
		if burstBytes-at < JumboPacket {
			return false
		}
		buf := b.bytes[at : at : at+JumboPacket]
		packet, number, ok := c.session.Build(now, buf, c.run.pathLimit, jumbo)
		if !ok {
			return true
		}
		b.unsealed = append(b.unsealed, unsealedPacket{packet, number})
		b.add(at, at+len(packet))
		at += len(packet)
	}
	return false
}

// seal seals the packets of the burst. It doesn't need the lock.
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

// flush sends the burst. It returns false if the socket's buffer is full.
func (c *Carrier) flush() (ok bool) {
	r := &c.run
	for b := r.burst; !b.isSent(); b.sent++ {
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

// writeFailed handles an error from the socket. It returns true if flush should go on with the
// next group.
func (c *Carrier) writeFailed(err error) (goOn bool) {
	if errors.Is(err, udp.ErrBlocked) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.session.Blocked(time.Now())
		return false
	}
	c.counts.writeErrors.Add(1)
	if errors.Is(err, net.ErrClosed) {
		c.closeWith(&Error{Reason: "socket closed", Cause: err})
	}
	return true
}
