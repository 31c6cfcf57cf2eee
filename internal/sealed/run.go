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
	// turnPackets is the maximum number of packets that a turn receives, all of them under a
	// single acquisition of the lock. Once they have turnBytes bytes, the turn receives no more.
	turnPackets = 64
	turnBytes   = turnPackets * FullPacket

	// If the socket's send buffer is full, we try again after blockedWait. In that time a link of
	// 1 Gbit/s sends 60 KB, about as much as a burst.
	blockedWait = 500 * time.Microsecond

	// We consider the machine busy if packets wait in the inbox for longer than busyWait. A
	// busy machine sends bulk in bursts, which saves processor time. A burst holds up the
	// bottleneck for no longer than each packet has to wait here anyway.
	busyWait = time.Millisecond
	// The average wait in the inbox rises by 1/waitRise of the difference, but falls by
	// 1/waitFall. While many carriers compete for the processors, each has few turns. If the
	// average fell as slowly as it rises, a carrier would go on sending bursts for half a second
	// after the others have stopped.
	waitRise = 8
	waitFall = 2

	// The load of a carrier is averaged over loadTurns turns. bulkLoad is the load that results
	// from three packets per turn. A turn with play receives one packet and sends one, while a
	// turn with bulk handles about ten.
	loadTurns = 8
	bulkLoad  = 3 * loadTurns

	// We ask QUIC for the addresses and the packet size when a packet arrives from another
	// address, and otherwise every followBulk while bulk is in flight, or every followPlay
	// without bulk. Asking in every turn would take 10 % of a turn with play, because quic-go's
	// memory is no longer in the cache by then.
	followBulk = 20 * time.Millisecond
	followPlay = 100 * time.Millisecond

	// observeBulk is the minimum time between two calls of Config.Observe while bulk is in
	// flight, and observePlay without bulk. With bulk, the controller's estimates may change in
	// every round trip. Without it, they hardly change.
	observeBulk = time.Millisecond
	observePlay = 100 * time.Millisecond
)

// bulkTurns limits the turns of carriers that move bulk while more carriers are working than
// there are processors. At any time it allows as many turns as there were processors when the
// process started.
//
// A carrier keeps its turn while it waits for other writes to its socket. If it gave the turn
// up, every carrier could build a burst that it can't send yet. A carrier never waits for a
// second turn while it has one.
var bulkTurns = crew.NewTurns(runtime.GOMAXPROCS(0))

// batches is a pool of the buffers into which carriers receive.
var batches = sync.Pool{New: func() any { return new(batch) }}

// A batch holds the packets that one turn receives.
type batch struct {
	packets [turnPackets]receivedPacket
	n       int
	frame   frame // lent to the session for the turn, so that sessions don't need 2 KiB each
}

// A receivedPacket is an opened packet and its arrival time.
type receivedPacket struct {
	at time.Time
	openedPacket
}

// A runner holds what a carrier keeps from one turn to the next. Only the goroutine that takes
// turns may use it.
type runner struct {
	writer udp.Writer
	pinger pinger

	// What QUIC last told us; see Carrier.follow.
	to, from      net.Addr       // the result of Config.Addrs
	remote, local netip.AddrPort // the same addresses in a form that can be compared
	hasAddrs      bool           // writer.Aim was called with them
	pathLimit     int            // from Config.PathLimit, at most FullPacket; written under the lock
	followedAt    time.Time      // when we last asked; zero if we haven't

	// Left for runCallbacks.
	state        State // of the session after the last turn
	stateChanged bool  // Config.Changed must be called
	pingDue      bool  // Config.Ping must be called, though not under the lock, since it may be slow

	// Buffers, which are nil between turns unless the socket was blocked.
	burst *burst // packets to send
	batch *batch // packets received

	incoming packetCursor // packets taken from the inbox

	// How busy the carrier and the machine are.
	inboxWait time.Duration // moving average of how long packets wait in the inbox
	load      int           // moving sum of packets per turn, over about loadTurns turns

	observedAt time.Time // when Config.Observe was last called
}

// borrow gets the buffers for a turn, unless the runner still has them because the socket was
// blocked.
func (r *runner) borrow() {
	if r.burst == nil {
		r.burst = bursts.Get().(*burst)
		r.batch = batches.Get().(*batch)
		r.burst.reset()
	}
}

// giveBack returns the buffers after a turn, unless they hold packets that must still be sent
// because the socket was blocked.
func (r *runner) giveBack() {
	if r.burst.isSent() {
		bursts.Put(r.burst)
		batches.Put(r.batch)
		r.burst = nil
		r.batch = nil
	}
}

// noteWait updates inboxWait. wait is the time that the first packet of a turn spent in the
// inbox.
func (r *runner) noteWait(wait time.Duration) {
	if diff := wait - r.inboxWait; diff < 0 {
		r.inboxWait += diff / waitFall
	} else {
		r.inboxWait += diff / waitRise
	}
}

// isBusy reports whether packets wait so long for a turn that the processors must be busy.
func (r *runner) isBusy() bool { return r.inboxWait > busyWait }

// noteLoad updates load with the number of packets that a turn received and built.
func (r *runner) noteLoad() { r.load += r.batch.n + len(r.burst.unsealed) - r.load/loadTurns }

// movesBulk reports whether the carrier moves so many packets that there must be bulk.
func (r *runner) movesBulk() bool { return r.load > bulkLoad }

// callbacksDue reports whether runCallbacks has anything to do.
func (r *runner) callbacksDue() bool { return r.stateChanged || r.pingDue || r.state == Closed }

// runCallbacks calls the owner's functions that are due, which may be slow, so the caller must
// not hold the lock. If the session has ended, it also cleans up and returns true.
func (c *Carrier) runCallbacks() (ended bool) {
	r := &c.run
	if r.stateChanged && c.config.Changed != nil {
		c.config.Changed(r.state)
	}
	if r.pingDue {
		c.config.Ping()
	}
	r.stateChanged = false
	r.pingDue = false
	if r.state != Closed {
		return false
	}
	c.cleanUp()
	return true
}

// cleanUp stops using the socket and closes Done. It is called once, after the session has
// closed.
func (c *Carrier) cleanUp() {
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
}

// turn does what is due now: it opens the packets that have arrived, runs the session under the
// lock, and seals and sends the packets that the session has built. If idle is true, nothing more
// is due before next or, if next is zero, before the carrier is woken.
func (c *Carrier) turn() (next time.Time, idle bool) {
	r := &c.run
	r.borrow()
	defer r.giveBack()
	if !r.incoming.more() {
		r.incoming = c.inbox.take()
	}
	c.open()
	result := c.step()
	r.noteLoad()
	if result.wakeOwner {
		c.config.WakeOwner()
	}

	more := r.incoming.more()
	if !more && r.incoming.first != nil {
		c.inbox.release(r.incoming)
		r.incoming = packetCursor{}
	}
	// If we were woken, a packet may have arrived after we looked into the inbox.
	idle = !more && !(result.woken && !c.inbox.empty())

	if r.burst.isSent() {
		return result.next, idle // nothing was built
	}
	c.seal()
	if c.flush() {
		return result.next, result.sentAll && idle
	}
	return time.Now().Add(blockedWait), idle
}

// A stepResult is the result of a step.
type stepResult struct {
	next      time.Time // when something is due; zero if nothing is
	woken     bool      // the carrier was woken since the last turn
	sentAll   bool      // the session has no more packets to send than the burst holds
	wakeOwner bool      // Config.AfterTurn returned true, so Config.WakeOwner must be called
}

// step is the part of a turn under the lock. It passes the opened packets to the session, runs
// the session's timers and builds a burst. The packets go first, because an ack among them may
// stop a timer that would otherwise declare its packet lost.
func (c *Carrier) step() (result stepResult) {
	r := &c.run
	c.mu.Lock()
	defer c.mu.Unlock()
	result.woken = c.worker.clearWake()
	now := time.Now()
	c.session.frame = &r.batch.frame
	c.follow(now)
	c.receive(now)
	_ = c.session.Advance(now) // Session.Err keeps the error
	c.observe(now)
	r.pingDue = c.takePing(now)
	c.session.Controller().Bursts(r.isBusy())
	// If the socket was blocked, the last burst goes out before we build another.
	result.sentAll = r.burst.isSent() && c.collect(now)
	result.next = c.next()
	result.wakeOwner = c.config.AfterTurn != nil && c.config.AfterTurn()

	state := c.session.State()
	r.stateChanged = r.stateChanged || state != r.state
	r.state = state
	c.bulk.Store(c.session.bulkInFlight() > 0 || c.bulkWaits())
	c.session.frame = nil // so that an idle carrier doesn't keep a batch in memory
	return result
}

// follow asks QUIC for the packet size and the addresses, unless it did so recently. If the
// path has changed, it tells the session. The caller holds the lock.
func (c *Carrier) follow(now time.Time) {
	r := &c.run
	maxAge := followPlay
	if c.session.bulkInFlight() > 0 {
		maxAge = followBulk
	}
	sawOther := c.inbox.sawOther.Swap(false)
	if r.hasAddrs && !sawOther && now.Sub(r.followedAt) < maxAge {
		return
	}
	r.followedAt = now
	r.pathLimit = SafePacket
	if c.config.PathLimit != nil {
		r.pathLimit = min(c.config.PathLimit(), FullPacket)
	}
	hadAddrs := r.hasAddrs
	if to, from := c.config.Addrs(); !r.setAddrs(to, from) {
		return
	}
	c.inbox.setRemote(r.remote)
	if hadAddrs {
		// If there's no spare id to change to, an observer may link the two addresses. That's
		// still better than sending nothing.
		c.session.Rotate()
		c.session.Moved(now)
		r.pinger.moved()
	}
}

// setAddrs aims the writer at the given addresses, and reports whether they differ from the last
// ones. Usually not even the pointers differ, so that nothing has to be converted.
func (r *runner) setAddrs(to, from net.Addr) (changed bool) {
	if r.hasAddrs && samePointer(to, r.to) && samePointer(from, r.from) {
		return false
	}
	r.to = to
	r.from = from
	remote, local := udp.AddrPort(to), udp.AddrPort(from)
	if r.hasAddrs && remote == r.remote && local == r.local {
		return false
	}
	r.writer.Aim(to, from)
	r.remote = remote
	r.local = local
	r.hasAddrs = true
	return true
}

// samePointer reports whether two addresses are the same *net.UDPAddr.
func samePointer(a, b net.Addr) bool {
	one, ok := a.(*net.UDPAddr)
	other, _ := b.(*net.UDPAddr)
	return ok && one == other
}

// open opens packets from the inbox, up to turnPackets of them and about turnBytes bytes. It
// doesn't need the lock.
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
		p.frames = nil                             // don't keep the inbox's memory alive
	}
}

// observe calls Config.Observe if it's due. The caller holds the lock.
func (c *Carrier) observe(now time.Time) {
	r := &c.run
	minAge := observePlay
	if c.session.bulkInFlight() > 0 {
		minAge = observeBulk
	}
	if c.config.Observe != nil && now.Sub(r.observedAt) >= minAge {
		r.observedAt = now
		c.config.Observe(now, c.session.Controller())
	}
}

// takePing reports whether runCallbacks must call Config.Ping. If so, the pinger counts the ping
// as sent. The caller holds the lock.
func (c *Carrier) takePing(now time.Time) bool {
	if c.config.Ping == nil {
		return false
	}
	p := &c.run.pinger
	if !p.due(now, c.session) {
		if c.config.PathLimit == nil || !p.searchDue(now, c.session) {
			return false
		}
		p.noteSize(c.config.PathLimit())
	}
	p.pinged(now, c.session)
	return true
}

// next returns when the session or the pinger has to do something, or zero if neither does
// until the carrier is woken. The caller holds the lock.
func (c *Carrier) next() time.Time {
	var first recovery.Earliest
	first.Add(c.session.NextTimeout())
	if c.config.Ping != nil {
		first.Add(c.run.pinger.ackOverdueAt(c.session))
	}
	at, _ := first.Time()
	return at
}
