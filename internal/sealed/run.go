package sealed

import (
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/crew"
	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/udp"
)

const (
	// turnPackets is the maximum number of packets received while the lock is held once.
	turnPackets = 64
	// turnBytes is the number of bytes after which no further packet is received.
	turnBytes = turnPackets * MaxPacket
	// blockedWait is how long the carrier waits if the socket's send buffer is full.
	blockedWait = 500 * time.Microsecond
	// busyWait is how long packets wait in the inbox of a machine that counts as busy. Such
	// a machine sends bulk in bursts, which saves processor time. A burst takes no longer
	// at the bottleneck than each packet waits here anyway.
	busyWait = time.Millisecond
	// heavyLoad is the load of three packets per turn. A turn of play receives one and
	// sends one; a turn of bulk has about ten.
	heavyLoad = 3 * 8
	// followBulk is how long a carrier relies on the addresses and the packet size that it
	// last got from QUIC, while bulk is in flight and no packet arrives from another
	// address. Without bulk it is followPlay. Asking quic-go takes a tenth of a turn of
	// play, because the memory of its connections is no longer in the cache.
	followBulk = 20 * time.Millisecond
	followPlay = 100 * time.Millisecond
	// observeBulk is the minimum time between two calls of Config.Observe while bulk is in
	// flight. observePlay is the minimum without bulk.
	observeBulk = time.Millisecond
	observePlay = 100 * time.Millisecond
)

// heavyTurns are the turns of carriers that move bulk while there are more working carriers
// than processors. As many may run at once as there were processors when the process
// started.
//
// A carrier keeps its turn while it waits for other writes to its socket. Otherwise each
// carrier of a crowd would meanwhile build a burst that could not be sent yet. A carrier
// never waits for a second turn.
var heavyTurns = crew.NewTurns(runtime.GOMAXPROCS(0))

// batches is a pool of the buffers into which carriers receive.
var batches = sync.Pool{New: func() any { return new(batch) }}

// A batch is the packets that one turn receives.
type batch struct {
	packets [turnPackets]receivedPacket
	n       int
	// Lent to the session for the turn. Its 2 KiB would otherwise be cold memory of each
	// session.
	frame frame
}

// arrived is a packet that was opened, with its time of arrival.
type receivedPacket struct {
	at time.Time
	openedPacket
}

// runner is the state that a carrier keeps from turn to turn. Only the goroutine that works
// may use it.
type runner struct {
	writer        udp.Writer
	to, from      net.Addr       // result of Config.Addrs, at asked
	remote, local netip.AddrPort // the same addresses, to compare
	hasAddrs      bool           // writer.Aim was called
	maxPacket     int            // result of Config.MaxPacket at asked, at most MaxPacket; written under the lock
	followedAt    time.Time      // when QUIC was last asked for addresses and size; zero = never

	// Results of the last turn.
	state        State // of the session
	stateChanged bool  // state has changed, and Config.Changed was not called for that yet
	pingDue      bool  // Config.Ping is due; not called under the lock, because it may take long

	// Memory of a turn.
	burst    *burst       // packets to send; nil between turns, unless the socket was blocked
	batch    *batch       // received packets; nil when burst is
	incoming packetCursor // packets from the inbox

	// Measurements that decide how the next turns work.
	inboxWait time.Duration // smoothed time for which packets wait in the inbox
	load      int           // packets of the last turns; each turn counts 7/8 of the one after it

	observedAt time.Time // when Config.Observe was last called
	pinger     pinger
}

// borrow gets the buffers for a turn, unless the carrier still has them because the socket
// was blocked.
func (r *runner) borrow() {
	if r.burst == nil {
		r.burst = bursts.Get().(*burst)
		r.batch = batches.Get().(*batch)
		r.burst.reset()
	}
}

// giveBack returns the buffers after a turn, unless they contain packets that were not sent
// because the socket was blocked.
func (r *runner) giveBack() {
	if r.burst.sent == r.burst.n {
		bursts.Put(r.burst)
		batches.Put(r.batch)
		r.burst = nil
		r.batch = nil
	}
}

// noteWait updates waited with the time that the first packet of a turn waited in the
// inbox. It falls faster than it rises. In a crowd a carrier has few turns. If waited fell
// by eighths, the carrier would send bursts for half a second after the others have ended.
func (r *runner) noteWait(wait time.Duration) {
	part := time.Duration(8)
	if wait < r.inboxWait {
		part = 2
	}
	r.inboxWait += (wait - r.inboxWait) / part
}

// heavy reports whether the carrier moves as many packets as bulk has.
func (r *runner) isHeavy() bool { return r.load > heavyLoad }

// noteLoad updates load with the number of packets that a turn received and built.
func (r *runner) noteLoad() { r.load += r.batch.n + len(r.burst.unsealed) - r.load/8 }

// owes reports whether settle has something to do.
func (r *runner) needsSettle() bool { return r.stateChanged || r.pingDue || r.state == Closed }

// busy reports whether packets wait long for a turn, because the processors are busy.
func (r *runner) isBusy() bool { return r.inboxWait > busyWait }

// settle does the part of a turn that may take long. It returns true if the
// session has ended; it has then cleaned up.
func (c *Carrier) settle() (ended bool) {
	r := &c.run
	if r.stateChanged && c.config.Changed != nil {
		c.config.Changed(r.state)
	}
	if r.pingDue {
		c.config.Ping()
	}
	r.stateChanged = false
	r.pingDue = false
	return c.cleanUp()
}

// turn does what is due now. If idle is true, nothing more is due before next or, if next
// is zero, before the carrier is woken.
func (c *Carrier) turn() (next time.Time, idle bool) {
	r := &c.run
	r.borrow()
	defer r.giveBack()
	if !r.incoming.more() {
		r.incoming = c.inbox.take()
	}
	c.open()
	f := c.step()
	r.noteLoad()
	if f.callWoken {
		c.config.Woken()
	}

	more := r.incoming.more()
	if !more && r.incoming.first != nil {
		c.inbox.release(r.incoming)
		r.incoming = packetCursor{}
	}
	idle = !more && !(f.woken && !c.inbox.empty())
	if r.burst.sent == r.burst.n {
		return f.next, idle
	}
	c.seal()
	if c.flush() {
		return f.next, f.sentAll && idle
	}
	return time.Now().Add(blockedWait), idle
}

// found is the result of step.
type stepResult struct {
	next      time.Time // as turn returns it
	woken     bool      // the carrier was woken since the last turn
	sentAll   bool      // the session has no packet to send beyond the burst
	callWoken bool      // Config.Turned returned true
}

// step is the part of a turn under the lock. It passes the opened packets to the session,
// runs the session's timers and builds a burst.
func (c *Carrier) step() (f stepResult) {
	r := &c.run
	c.mu.Lock()
	defer c.mu.Unlock()
	f.woken = c.worker.clearWake()
	now := time.Now()
	c.session.frame = &r.batch.frame
	c.follow(now)
	c.receive(now)
	_ = c.session.Advance(now) // Session.Err keeps the error
	c.observe(now)
	r.pingDue = c.pingDue(now)
	c.session.Controller().Bursts(r.isBusy())
	f.sentAll = r.burst.sent == r.burst.n && c.collect(now)
	f.next = c.next()
	f.callWoken = c.config.Turned != nil && c.config.Turned()
	state := c.session.State()
	r.stateChanged = r.stateChanged || state != r.state
	r.state = state
	c.bulk.Store(c.session.bulkInFlight() > 0 || c.bulkWaits())
	c.session.frame = nil // so that an idle carrier does not keep a batch in memory
	return f
}

// pingDue reports whether Config.Ping must be called. The caller holds the lock.
func (c *Carrier) pingDue(now time.Time) bool {
	if c.config.Ping == nil {
		return false
	}
	return c.run.pinger.due(now, c.session) ||
		c.config.MaxPacket != nil && c.run.pinger.searches(now, c.session, c.config.MaxPacket)
}

// follow gets addresses and packet size from QUIC if the last ones are old. It reports a
// new path to the session.
func (c *Carrier) follow(now time.Time) {
	r := &c.run
	age := followPlay
	if c.session.bulkInFlight() > 0 {
		age = followBulk
	}
	strayed := c.inbox.sawOther.Swap(false)
	if r.hasAddrs && !strayed && now.Sub(r.followedAt) < age {
		return
	}
	r.followedAt = now
	r.maxPacket = SafePacket
	if c.config.MaxPacket != nil {
		r.maxPacket = min(c.config.MaxPacket(), MaxPacket)
	}
	to, from := c.config.Addrs()
	if r.hasAddrs && same(to, r.to) && same(from, r.from) {
		return
	}
	r.to = to
	r.from = from
	remote, local := udp.AddrPort(to), udp.AddrPort(from)
	if r.hasAddrs && remote == r.remote && local == r.local {
		return
	}
	r.writer.Aim(to, from)
	c.inbox.setRemote(remote)
	if r.hasAddrs {
		c.session.Rotate() // without a spare id, an observer may link the addresses, which is better than silence
		c.session.Moved(now)
		r.pinger.moved()
	}
	r.remote = remote
	r.local = local
	r.hasAddrs = true
}

// same reports whether two addresses are the same pointer. The check saves converting and
// comparing them.
func same(a, b net.Addr) bool {
	one, ok := a.(*net.UDPAddr)
	other, _ := b.(*net.UDPAddr)
	return ok && one == other
}

// open opens up to turnPackets packets and about turnBytes bytes from the inbox, without
// the lock.
func (c *Carrier) open() {
	r := &c.run
	b := r.batch
	b.n = 0
	for left := turnBytes; b.n < turnPackets && left > 0 && r.incoming.more(); b.n++ {
		p := &b.packets[b.n]
		at, packet := c.inbox.next(&r.incoming)
		left -= len(packet)
		p.at = at
		p.openedPacket = c.session.open(packet)
	}
}

// receive passes the opened packets to the session. The caller holds the lock.
func (c *Carrier) receive(now time.Time) {
	b := c.run.batch
	if b.n > 0 {
		c.run.noteWait(now.Sub(b.packets[0].at))
	}
	for i := range b.n {
		p := &b.packets[i]
		_ = c.session.handle(p.at, p.openedPacket) // Session.Err keeps the error
		p.frames = nil                             // so that it does not keep the inbox's memory alive
	}
}

// observe calls Config.Observe if it is due. The caller holds the lock.
func (c *Carrier) observe(now time.Time) {
	r := &c.run
	age := observePlay
	if c.session.bulkInFlight() > 0 {
		age = observeBulk
	}
	if c.config.Observe != nil && now.Sub(r.observedAt) >= age {
		r.observedAt = now
		c.config.Observe(now, c.session.Controller())
	}
}

// next returns the time at which something is due. Zero means not before the carrier is
// woken. The caller holds the lock.
func (c *Carrier) next() time.Time {
	var first recovery.Earliest
	first.Add(c.session.NextTimeout())
	if c.config.Ping != nil {
		first.Add(c.run.pinger.ackOverdueAt(c.session))
	}
	at, _ := first.Time()
	return at
}

// finished reports whether the session has ended. If so, it cleans up and closes Done.
func (c *Carrier) cleanUp() bool {
	if c.run.state != Closed {
		return false
	}
	c.mu.Lock()
	ids := c.issued
	c.mu.Unlock()
	c.socket.unregister(ids...)
	c.inbox.release(c.run.incoming)
	c.inbox.close()
	c.run.incoming = packetCursor{}
	c.worker.stop()
	close(c.done)
	if c.config.Ended != nil {
		c.config.Ended()
	}
	return true
}
