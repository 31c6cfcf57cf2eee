package sealed

import (
	"sync"
	"time"
)

const (
	// turnPackets are taken in one hold of the lock.
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

// batches are packets that carriers have opened and not taken yet.
var batches = sync.Pool{New: func() any { return new(batch) }}

// batch is what one turn receives.
type batch struct {
	packets [turnPackets]arrived
	n       int
}

// arrived is a packet that was opened, and when it came.
type arrived struct {
	at time.Time
	opened
}

// runner is what the goroutine of a carrier keeps between two turns.
type runner struct {
	batch *batch
	slab  []byte // of the inbox
	rest  []byte // of slab, not opened

	observed time.Time
	pinged   time.Time
	received uint64 // packets at the last ping
}

// loop is the goroutine.
func (c *Carrier) loop() {
	c.run.batch = batches.Get().(*batch)
	defer batches.Put(c.run.batch)
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
	c.rise()
	if len(r.rest) == 0 {
		r.slab = c.inbox.take()
		r.rest = r.slab
	}
	c.open()
	c.mu.Lock()
	now := time.Now()
	sends := c.send.token.take()
	if sends {
		c.follow(now)
	}
	c.receive()
	_ = c.session.Advance(now) // Err says it later
	c.observe(now)
	ping := c.pingDue(now)
	if sends && c.send.empty() {
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
	if !sends {
		return time.Time{}, false, !more // who sends wakes us; a nap would not hear it
	}
	sent := !c.send.empty()
	if c.transmit() {
		return time.Now().Add(blockedWait), true, !more
	}
	return next, ok, !more && !sent
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

// open opens some of the packets that wait, without the lock.
func (c *Carrier) open() {
	r := &c.run
	b := r.batch
	for b.n = 0; b.n < turnPackets && len(r.rest) > 0; b.n++ {
		p := &b.packets[b.n]
		at, packet, rest := c.inbox.next(r.rest)
		p.at, p.opened, r.rest = at, c.session.open(packet), rest
	}
}

// receive takes what open opened.
func (c *Carrier) receive() {
	b := c.run.batch
	for i := range b.n {
		p := &b.packets[i]
		_ = c.session.take(p.at, p.opened) // Err says it later
		p.frames = nil                     // it would hold on to the inbox's memory
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

// sleep waits for work. It reports whether the goroutine is to end, because there is none for long.
func (c *Carrier) sleep(timer *time.Timer, next time.Time, ok bool) (end bool) {
	wait, brief := c.lieDown(next, ok)
	if wait <= 0 || brief && wait < timerUnit && c.socket.raw != nil && nap(wait) {
		return false
	}
	timer.Reset(wait)
	select {
	case <-c.wakes:
		return false
	case <-timer.C:
		return !brief && c.rest()
	}
}

// rise notes that the goroutine looks at everything now.
func (c *Carrier) rise() {
	c.park.Lock()
	c.due, c.until = time.Time{}, time.Time{}
	c.park.Unlock()
}

// lieDown returns how long to sleep, and whether there is work then.
func (c *Carrier) lieDown(next time.Time, ok bool) (wait time.Duration, brief bool) {
	c.park.Lock()
	defer c.park.Unlock()
	if ok {
		c.due = earlier(c.due, next)
	}
	now := time.Now()
	wait, brief = linger, false
	if !c.due.IsZero() {
		if due := c.due.Sub(now); due <= parkAfter {
			wait, brief = due, true
		}
	}
	c.until = now.Add(wait)
	return wait, brief
}

// rest ends the goroutine unless there is work after all; a timer starts another one.
func (c *Carrier) rest() bool {
	c.park.Lock()
	defer c.park.Unlock()
	if len(c.wakes) > 0 || !c.inbox.rest() {
		return false
	}
	c.running = false
	c.until = time.Time{}
	if !c.due.IsZero() {
		c.startAt(c.due)
	}
	return true
}

// wakeAt has the goroutine look at that time, if not before: somebody has sent in its place.
func (c *Carrier) wakeAt(at time.Time) {
	c.park.Lock()
	defer c.park.Unlock()
	switch {
	case c.ended:
	case c.running:
		c.due = earlier(c.due, at)
		if at.Before(c.until) {
			c.knock()
		}
	case c.until.IsZero() || at.Before(c.until):
		c.startAt(at)
	}
}

// startAt starts the goroutine at that time, unless it is woken before. The park is locked.
func (c *Carrier) startAt(at time.Time) {
	c.until = at
	if c.later == nil {
		c.later = time.AfterFunc(time.Until(at), c.wake)
	} else {
		c.later.Reset(time.Until(at))
	}
}

// earlier returns the earlier of two times, of which a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// finished cleans up behind a session that has ended.
func (c *Carrier) finished() bool {
	c.mu.Lock()
	ended, ids := c.session.State() == Closed, c.issued
	c.mu.Unlock()
	if !ended || !c.send.token.take() {
		return false
	}
	c.send.free()
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
