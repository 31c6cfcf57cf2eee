package sealed

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// turnPackets are opened in one hold of the lock.
	turnPackets = 64
	// linger is how long a goroutine without work waits for some before it ends.
	linger = 20 * time.Millisecond
	// parkAfter is the wait that is worth ending the goroutine for.
	parkAfter = 100 * time.Millisecond
	// blockedWait is after how long a full send buffer is tried again.
	blockedWait = 500 * time.Microsecond
	// pingTime is the longest without a ping over QUIC while there is traffic, minPing the least.
	pingTime = time.Second
	minPing  = 50 * time.Millisecond
	// observeTime keeps looks at QUIC, and what it is told, apart.
	observeTime = time.Millisecond
)

// bursts are the buffers of carriers that send now.
var bursts = sync.Pool{New: func() any { return new(burst) }}

// burst is a run of packets that are built and not sent yet.
type burst struct {
	bytes  [maxSegments * MaxPacket]byte
	groups [maxSegments]group
	n      int // groups
	sent   int // groups
}

// group is a part of a burst that goes out in one call: packets of one size, the last of which may be shorter.
type group struct{ start, end, size int }

func (b *burst) reset() { b.n, b.sent = 0, 0 }

// add takes a packet that lies behind those of before.
func (b *burst) add(start, end int) {
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

// runner is what the goroutine of a carrier keeps between two turns.
type runner struct {
	writer        writer
	remote, local netip.AddrPort
	aimed         bool

	burst *burst // nil while nothing is built that is not sent
	slab  []byte // of the inbox
	rest  []byte // of slab, not received

	observed time.Time
	pinged   time.Time
	received uint64 // packets at the last ping
}

// loop is the goroutine.
func (c *Carrier) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, ok, idle := c.turn()
		switch {
		case c.finished():
			return
		case !idle:
		case c.sleep(timer, next, ok):
			return
		}
	}
}

// turn does what is due now. Idle: nothing is, before next.
func (c *Carrier) turn() (next time.Time, ok, idle bool) {
	r := &c.run
	if len(r.rest) == 0 {
		r.slab = c.inbox.take()
		r.rest = r.slab
	}
	c.mu.Lock()
	now := time.Now()
	c.follow(now)
	c.receive()
	_ = c.session.Advance(now) // Err says it later
	c.observe(now)
	ping := c.pingDue(now)
	if r.burst == nil {
		c.collect(now)
	}
	next, ok = c.session.NextTimeout()
	woken := c.config.Turned != nil && c.config.Turned()
	c.mu.Unlock()
	c.tell()
	if woken {
		c.config.Woken()
	}

	more := len(r.rest) > 0
	if !more && r.slab != nil {
		c.inbox.give(r.slab)
		r.slab, r.rest = nil, nil // an empty rest would hold on to it, too
	}
	if ping {
		c.config.Ping()
	}
	if r.burst == nil {
		return next, ok, !more
	}
	if c.flush() {
		c.giveBack()
		return next, ok, false
	}
	return time.Now().Add(blockedWait), true, !more
}

// tell passes a change of the state on.
func (c *Carrier) tell() {
	c.mu.Lock()
	state, changed := c.session.State(), c.session.Changed()
	c.mu.Unlock()
	if changed && c.config.Changed != nil {
		c.config.Changed(state)
	}
}

// follow sends to where QUIC sends, and says when that has become another place.
func (c *Carrier) follow(now time.Time) {
	r := &c.run
	to, from := c.config.Addrs()
	remote, local := addrPort(to), addrPort(from)
	if r.aimed && remote == r.remote && local == r.local {
		return
	}
	r.writer.aim(to, from)
	c.inbox.setRemote(remote)
	if r.aimed && local != r.local {
		c.session.Rotate() // without a spare an observer may connect the two: better than silence
	}
	if r.aimed {
		c.session.Moved(now)
	}
	r.remote, r.local, r.aimed = remote, local, true
}

// receive opens some of the packets that wait.
func (c *Carrier) receive() {
	r := &c.run
	for range turnPackets {
		if len(r.rest) == 0 {
			return
		}
		at, packet, rest := c.inbox.next(r.rest)
		r.rest = rest
		_ = c.session.Receive(at, packet) // Err says it later
	}
}

func (c *Carrier) observe(now time.Time) {
	r := &c.run
	if c.config.Observe != nil && now.Sub(r.observed) >= observeTime {
		r.observed = now
		c.config.Observe(now, c.session.Controller())
	}
}

// pingDue reports whether QUIC is to send something.
func (c *Carrier) pingDue(now time.Time) bool {
	r := &c.run
	s := c.session
	since := now.Sub(r.pinged)
	if c.config.Ping == nil || !s.started || since < minPing {
		return false
	}
	quiet := s.waiting() && s.now-s.hearing.heard >= s.pto() && since >= s.pto()
	if at, ok := s.hushedAt(); ok && s.now >= at && r.pinged.Before(s.time(s.hearing.opened)) {
		quiet = true // once for each hush
	}
	traffic := s.stats.Received != r.received || s.records.flying > 0
	if !quiet && (!traffic || since < pingTime) {
		return false
	}
	r.pinged, r.received = now, s.stats.Received
	return true
}

// giveBack returns the burst: hundreds of carriers that wait for their pace need not hold one each.
func (c *Carrier) giveBack() {
	bursts.Put(c.run.burst)
	c.run.burst = nil
}

// collect builds packets, if the session has any, until it has none or the burst is full.
func (c *Carrier) collect(now time.Time) {
	b := bursts.Get().(*burst)
	b.reset()
	c.run.burst = b
	if c.build(now); b.n == 0 {
		c.giveBack()
	}
}

func (c *Carrier) build(now time.Time) {
	b := c.run.burst
	most := SafePacket
	if c.config.MaxPacket != nil {
		most = min(c.config.MaxPacket(), MaxPacket)
	}
	for at, n := 0, 0; n < maxSegments && at+most <= len(b.bytes); n++ {
		packet, _, ok := c.session.AppendPacket(now, b.bytes[at:at:at+most], most)
		if !ok {
			return
		}
		b.add(at, at+len(packet))
		at += len(packet)
	}
}

// flush sends the burst. Not ok: the socket takes no more.
func (c *Carrier) flush() (ok bool) {
	r := &c.run
	for b := r.burst; b.sent < b.n; b.sent++ {
		g := &b.groups[b.sent]
		n, err := r.writer.write(b.bytes[g.start:g.end], g.size)
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

// sleep waits for work. It reports whether the goroutine is to end, because there is none for long.
func (c *Carrier) sleep(timer *time.Timer, next time.Time, ok bool) (end bool) {
	wait := linger
	if !ok {
		next = time.Time{}
	} else if wait = time.Until(next); wait <= 0 {
		return false
	}
	if wait > parkAfter {
		wait, ok = linger, false
	}
	if ok && wait < timerUnit && c.socket.raw != nil && nap(wait) {
		return false
	}
	timer.Reset(wait)
	select {
	case <-c.token:
		return false
	case <-timer.C:
		return !ok && c.rest(next)
	}
}

// rest ends the goroutine unless there is work after all; a timer starts another one.
func (c *Carrier) rest(next time.Time) bool {
	c.park.Lock()
	defer c.park.Unlock()
	if len(c.token) > 0 || !c.inbox.rest() {
		return false
	}
	c.running = false
	if next.IsZero() {
		return true
	}
	if c.later == nil {
		c.later = time.AfterFunc(time.Until(next), c.wake)
	} else {
		c.later.Reset(time.Until(next))
	}
	return true
}

// finished cleans up behind a session that has ended.
func (c *Carrier) finished() bool {
	c.mu.Lock()
	ended, ids := c.session.State() == Closed, c.issued
	c.mu.Unlock()
	if !ended {
		return false
	}
	c.tell()
	c.socket.retire(ids...)
	c.inbox.close()
	c.park.Lock()
	defer c.park.Unlock()
	c.ended = true
	if c.later != nil {
		c.later.Stop()
	}
	close(c.done)
	return true
}
