package sealed

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// bursts are the buffers of carriers that send now.
var bursts = sync.Pool{New: func() any { return &burst{built: make([]built, 0, maxSegments)} }}

// burst is a run of packets that are built and not sent yet.
type burst struct {
	bytes  [maxSegments * MaxPacket]byte
	built  []built // to be sealed, one behind the other in bytes
	end    int     // of them
	groups [maxSegments]group
	n      int // groups
	sent   int // groups
}

// built is a packet that is not sealed.
type built struct {
	packet []byte
	number uint64
}

// group is a part of a burst that goes out in one call: packets of one size, the last of which may be shorter.
type group struct{ start, end, size int }

func (b *burst) reset() { b.n, b.sent, b.end, b.built = 0, 0, 0, b.built[:0] }

// room returns where the next packet is built.
func (b *burst) room(most int) []byte { return b.bytes[b.end:b.end:min(b.end+most, len(b.bytes))] }

// add takes a packet that was built in room.
func (b *burst) add(p built) {
	b.built = append(b.built, p)
	b.group(b.end, b.end+len(p.packet))
	b.end += len(p.packet)
}

// group has a packet leave with those before it, when it lies behind them.
func (b *burst) group(start, end int) {
	if b.n > 0 {
		g := &b.groups[b.n-1]
		if length := g.end - g.start; length%g.size == 0 && end-start <= g.size && length < maxSegments*g.size {
			g.end = end
			return
		}
	}
	b.groups[b.n] = group{start, end, end - start}
	b.n++
}

// sender is what it takes to send packets. It belongs to who holds its token.
type sender struct {
	token         token
	writer        writer
	remote, local netip.AddrPort
	aimed         bool
	burst         *burst // nil when nothing waits to be sent
}

// empty reports whether everything was sent that was built.
func (s *sender) empty() bool { return s.burst == nil || s.burst.sent == s.burst.n }

// free gives the buffer back.
func (s *sender) free() {
	if s.burst != nil {
		bursts.Put(s.burst)
		s.burst = nil
	}
}

// follow sends to where QUIC sends, and says when that has become another place. The lock and the token are held.
func (c *Carrier) follow(now time.Time) {
	s := &c.send
	to, from := c.config.Addrs()
	remote, local := addrPort(to), addrPort(from)
	if s.aimed && remote == s.remote && local == s.local {
		return
	}
	s.writer.aim(to, from)
	c.inbox.setRemote(remote)
	if s.aimed {
		c.session.Rotate() // without a spare an observer may connect the two: better than silence
		c.session.Moved(now)
	}
	s.remote, s.local, s.aimed = remote, local, true
}

// begin returns an empty burst for packets of at most so many bytes. The token is held, and all that was built is sent.
func (c *Carrier) begin() (b *burst, most int) {
	if c.send.burst == nil {
		c.send.burst = bursts.Get().(*burst)
	}
	c.send.burst.reset()
	if c.config.MaxPacket == nil {
		return c.send.burst, SafePacket
	}
	return c.send.burst, min(c.config.MaxPacket(), MaxPacket)
}

// collect builds packets until the session has none or the burst is full. The lock and the token are held.
func (c *Carrier) collect(now time.Time) {
	b, most := c.begin()
	for len(b.built) < maxSegments {
		packet, number, ok := c.session.Build(now, b.room(most), most)
		if !ok {
			return
		}
		b.add(built{packet, number})
	}
}

// transmit seals and sends what was built, without the lock, and gives the token back. It reports whether the goroutine is to be
// woken: it waits for the token, or has to send what the socket does not take now.
func (c *Carrier) transmit() (wake bool) {
	if !c.send.empty() {
		c.seal()
		if !c.write() {
			c.send.token.leave()
			return true
		}
	}
	c.send.free()
	return c.send.token.release()
}

// seal seals what was built.
func (c *Carrier) seal() {
	b := c.send.burst
	for _, p := range b.built {
		if err := c.session.Seal(p.packet, p.number); err != nil {
			c.mu.Lock()
			c.session.end(err)
			c.mu.Unlock()
			b.reset()
			return
		}
	}
	b.built = b.built[:0]
}

// write sends what was sealed. Not ok: the socket takes no more.
func (c *Carrier) write() (ok bool) {
	for b := c.send.burst; b.sent < b.n; b.sent++ {
		g := &b.groups[b.sent]
		n, err := c.send.writer.write(b.bytes[g.start:g.end], g.size)
		c.counts.writes.Add(1)
		g.start += n
		if err != nil && !c.refused(err) {
			return false
		}
	}
	return true
}

// refused takes an error of the socket, and reports whether to go on.
func (c *Carrier) refused(err error) bool {
	if errors.Is(err, errBlocked) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.session.Blocked(time.Now())
		return false
	}
	c.counts.writeErrors.Add(1)
	if errors.Is(err, net.ErrClosed) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.session.end(&Error{Kind: Stopped, Reason: "the socket is closed", Cause: err})
	}
	return true
}
