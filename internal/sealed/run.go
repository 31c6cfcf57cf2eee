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
	// turnPackets is how many packets are received in one hold of the lock.
	turnPackets = 64
	// turnBytes is how many bytes they have at most, the last one's apart.
	turnBytes = turnPackets * MaxPacket
	// blockedWait is how long the carrier waits when the socket's send buffer is full.
	blockedWait = 500 * time.Microsecond
	// busyWait is how long packets wait in the inbox of a busy machine. There bulk leaves in bursts, which save processor time, and take
	// no longer at the bottleneck than each packet waits here anyway.
	busyWait = time.Millisecond
	// heavyLoad is the load of three packets a turn. Play receives one and sends one; who moves bulk has some ten.
	heavyLoad = 3 * 8
	// followBulk is how long a carrier relies on what QUIC last told it of the path while bulk is in flight, unless a packet comes from
	// elsewhere. Without bulk it is followPlay: to ask quic-go takes a tenth of a turn of play, because the memory of its connections is cold
	// by then.
	followBulk = 20 * time.Millisecond
	followPlay = 100 * time.Millisecond
	// observeBulk is the least time between two calls of Config.Observe while bulk is in flight, observePlay without.
	observeBulk = time.Millisecond
	observePlay = 100 * time.Millisecond
)

// heavyTurns are the turns of carriers that move bulk, while more carriers have work than there are processors: as many at once as there
// were processors when the process began. A carrier keeps its turn while it waits for other writes to its socket: otherwise each carrier of
// a crowd would build a burst meanwhile, which could not leave yet. It waits for no other turn.
var heavyTurns = crew.NewTurns(runtime.GOMAXPROCS(0))

// batches has the buffers of carriers that receive now.
var batches = sync.Pool{New: func() any { return new(batch) }}

// batch is what one turn receives.
type batch struct {
	packets [turnPackets]arrived
	n       int
	frame   frame // lent to the session for the turn, for which it would be 2 KiB of cold memory
}

// arrived is a packet that was opened, and when it came.
type arrived struct {
	at time.Time
	opened
}

// runner is what a carrier keeps between two turns. It belongs to whoever works.
type runner struct {
	writer        udp.Writer
	to, from      net.Addr       // by Config.Addrs, at asked
	remote, local netip.AddrPort // the same, to compare
	aimed         bool           // writer has addresses
	most          int            // bytes of a packet, by Config.MaxPacket at asked; written under the lock
	asked         time.Time      // when QUIC was last asked for addresses and size

	// What the last turn has found.
	state   State // of the session
	changed bool  // it changed, which Config.Changed was not told yet
	pings   bool  // Ping is due, which may block

	// Memory of a turn.
	burst *burst // packets to be sent; nil between turns, unless the socket is blocked
	batch *batch // packets that are received; nil as burst
	taken taken  // packets from the inbox

	// What decides how the next turns work.
	waited time.Duration // smoothed: how long packets wait in the inbox
	load   int           // packets of the last turns, each turn counting 7/8 of the one after it

	observed time.Time // when Config.Observe was last called
	pinger   pinger
}

// borrow takes the buffers for a turn, unless it has them because the socket was blocked.
func (r *runner) borrow() {
	if r.burst == nil {
		r.burst, r.batch = bursts.Get().(*burst), batches.Get().(*batch)
		r.burst.reset()
	}
}

// giveBack gives the buffers back after a turn, unless they hold packets that the socket did not take.
func (r *runner) giveBack() {
	if r.burst.sent == r.burst.n {
		bursts.Put(r.burst)
		batches.Put(r.batch)
		r.burst, r.batch = nil, nil
	}
}

// noteWait notes how long the first packet of a turn has waited in the inbox. A machine that is no longer busy is believed sooner than one that
// becomes so: in a crowd a carrier has few turns, and by eighths its bursts would go on for half a second after others have ended.
func (r *runner) noteWait(wait time.Duration) {
	part := time.Duration(8)
	if wait < r.waited {
		part = 2
	}
	r.waited += (wait - r.waited) / part
}

// heavy reports whether the carrier moves much, as bulk does.
func (r *runner) heavy() bool { return r.load > heavyLoad }

// noteLoad notes how many packets a turn has received and built.
func (r *runner) noteLoad() { r.load += r.batch.n + len(r.burst.built) - r.load/8 }

// owes reports whether settle has something to do.
func (r *runner) owes() bool { return r.changed || r.pings || r.state == Closed }

// busy reports whether packets wait for a turn for long, because the processors have much else to do.
func (r *runner) busy() bool { return r.waited > busyWait }

// settle does after a turn what may take long or block. It is true when the session has ended; then the carrier has, too.
func (c *Carrier) settle() (ended bool) {
	r := &c.run
	if r.changed && c.config.Changed != nil {
		c.config.Changed(r.state)
	}
	if r.pings {
		c.config.Ping()
	}
	r.changed, r.pings = false, false
	return c.finished()
}

// turn does what is due now. When it is idle, nothing more is due before next, or, when that is zero, before somebody wakes the carrier.
func (c *Carrier) turn() (next time.Time, idle bool) {
	r := &c.run
	r.borrow()
	defer r.giveBack()
	if !r.taken.more() {
		r.taken = c.inbox.take()
	}
	c.open()
	f := c.step()
	r.noteLoad()
	if f.turned {
		c.config.Woken()
	}

	more := r.taken.more()
	if !more && r.taken.first != nil {
		c.inbox.give(r.taken)
		r.taken = taken{}
	}
	idle = !more && !(f.woken && !c.inbox.empty())
	if r.burst.sent == r.burst.n {
		return f.next, idle
	}
	if c.seal(); c.flush() {
		return f.next, f.all && idle
	}
	return time.Now().Add(blockedWait), idle
}

// found is what a turn has found under the lock.
type found struct {
	next   time.Time // as turn returns it
	woken  bool      // somebody has woken the carrier
	all    bool      // there is no packet to build beyond the burst
	turned bool      // Config.Turned was true
}

// step is the part of a turn under the lock: it gives the session what came, runs its timers and builds a burst.
func (c *Carrier) step() (f found) {
	r := &c.run
	c.mu.Lock()
	defer c.mu.Unlock()
	f.woken = c.worker.seen()
	now := time.Now()
	c.session.frame = &r.batch.frame
	c.follow(now)
	c.receive(now)
	_ = c.session.Advance(now) // Err says it later
	c.observe(now)
	r.pings = c.config.Ping != nil && (r.pinger.due(now, c.session) || c.config.MaxPacket != nil && r.pinger.searches(now, c.session, c.config.MaxPacket))
	c.session.Controller().Bursts(r.busy())
	f.all = r.burst.sent == r.burst.n && c.collect(now)
	f.next = c.next()
	f.turned = c.config.Turned != nil && c.config.Turned()
	state := c.session.State()
	r.state, r.changed = state, r.changed || state != r.state
	c.bulk.Store(c.session.bulkInFlight() > 0 || c.bulkWaits())
	c.session.frame = nil // or each carrier at rest would keep a batch in memory
	return f
}

// follow makes the carrier send where QUIC sends, and packets as large as QUIC's, and tells the session when the path has changed.
func (c *Carrier) follow(now time.Time) {
	r := &c.run
	age := followPlay
	if c.session.bulkInFlight() > 0 {
		age = followBulk
	}
	if strayed := c.inbox.strayed.Swap(false); r.aimed && !strayed && now.Sub(r.asked) < age {
		return
	}
	r.asked, r.most = now, SafePacket
	if c.config.MaxPacket != nil {
		r.most = min(c.config.MaxPacket(), MaxPacket)
	}
	to, from := c.config.Addrs()
	if r.aimed && same(to, r.to) && same(from, r.from) {
		return
	}
	r.to, r.from = to, from
	remote, local := udp.AddrPort(to), udp.AddrPort(from)
	if r.aimed && remote == r.remote && local == r.local {
		return
	}
	r.writer.Aim(to, from)
	c.inbox.setRemote(remote)
	if r.aimed {
		c.session.Rotate() // without a spare id an observer may connect the two addresses, which is better than silence
		c.session.Moved(now)
		r.pinger.moved()
	}
	r.remote, r.local, r.aimed = remote, local, true
}

// same reports whether two addresses are the same pointer, so that they need not be converted and compared.
func same(a, b net.Addr) bool {
	one, ok := a.(*net.UDPAddr)
	other, _ := b.(*net.UDPAddr)
	return ok && one == other
}

// open opens packets of the inbox, up to turnPackets and turnBytes, without the lock.
func (c *Carrier) open() {
	r := &c.run
	b := r.batch
	b.n = 0
	for left := turnBytes; b.n < turnPackets && left > 0 && r.taken.more(); b.n++ {
		p := &b.packets[b.n]
		at, packet := c.inbox.next(&r.taken)
		left -= len(packet)
		p.at, p.opened = at, c.session.open(packet)
	}
}

// receive gives the session the packets that open has opened, under the lock.
func (c *Carrier) receive(now time.Time) {
	b := c.run.batch
	if b.n > 0 {
		c.run.noteWait(now.Sub(b.packets[0].at))
	}
	for i := range b.n {
		p := &b.packets[i]
		_ = c.session.take(p.at, p.opened) // Err says it later
		p.frames = nil                     // it would hold on to the inbox's memory
	}
}

func (c *Carrier) observe(now time.Time) {
	r := &c.run
	age := observePlay
	if c.session.bulkInFlight() > 0 {
		age = observeBulk
	}
	if c.config.Observe != nil && now.Sub(r.observed) >= age {
		r.observed = now
		c.config.Observe(now, c.session.Controller())
	}
}

// next returns when something is due; zero = not before somebody wakes the carrier. The caller holds the lock.
func (c *Carrier) next() time.Time {
	var first recovery.Earliest
	first.Add(c.session.NextTimeout())
	if c.config.Ping != nil {
		first.Add(c.run.pinger.at(c.session))
	}
	at, _ := first.Time()
	return at
}

// finished reports whether the session has ended. If so, it cleans up and closes Done.
func (c *Carrier) finished() bool {
	if c.run.state != Closed {
		return false
	}
	c.mu.Lock()
	ids := c.issued
	c.mu.Unlock()
	c.socket.retire(ids...)
	c.inbox.give(c.run.taken)
	c.inbox.close()
	c.run.taken = taken{}
	c.worker.end()
	close(c.done)
	if c.config.Ended != nil {
		c.config.Ended()
	}
	return true
}
