package stream

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// A Peer holds the transfers of one connection, in both directions. [Streams.Peer] returns it.
type Peer struct {
	streams *Streams
	conn    *rpc.Conn
	joined  bool // the world will report the end of the connection; guarded by Streams.mu

	live  *liveSet // ends the transfers with the connection; safe for concurrent use
	inbox Inbox    // blobs that ToInbox delivers

	// Memory. Safe for concurrent use.
	account *budget.Account      // charged for what the peer makes us hold
	stocked *budget.StockAccount // charged for what we have read for the peer

	counts peerCounts // for Stats; safe for concurrent use

	// The two directions. Used by the world's goroutine only, except where sender says
	// otherwise.
	control  control  // exchanges messages about transfers
	sender   sender   // transfers to the peer
	receiver receiver // transfers from the peer

	// The routes on which parts of content travel. Used by the world's goroutine only.
	window *window     // as reliable RPCs on lanes
	slices *sliceRoute // as slices of chunks
	lanes  lanes       // decides how many lanes window should have

	// Ticks. Used by the world's goroutine only, except called.
	called    atomic.Bool // the peer is in Streams.callers
	active    bool        // the connection has joined and has not ended
	scheduled bool        // the peer is in Streams.due
	wasIdle   bool        // the last tick found nothing to do
	ticked    time.Time   // when a tick last included the peer
}

// newPeer returns the peer of a connection.
func newPeer(s *Streams, conn *rpc.Conn) *Peer {
	p := &Peer{
		streams: s,
		conn:    conn,
		live:    newLive(),
		account: sliceLinkOf(conn).account,
		stocked: s.stock.NewAccount(),
		slices:  newSliceRoute(conn),
	}
	p.account.Bill(extend.PartyOf(conn))
	p.inbox.peer = p
	p.control.peer = p
	p.sender.peer = p
	p.sender.early = minPending
	if s.world.IsServer() {
		// A client begins with 0, since it receives the server's limits as soon as it has a pipe.
		p.sender.atOnce = 1
	}
	p.receiver.peer = p
	p.window = &window{conn: conn, stocked: p.stocked}
	p.lanes.peer = p
	p.lanes.asked = 1
	extend.OnWake(conn, p.call)
	return p
}

// connected is called when the connection has joined. A server then opens the control pipe and
// the first lanes. A client gets them through bindPipes when they arrive.
func (p *Peer) connected() {
	world := p.streams.world
	if !world.IsServer() {
		return
	}
	_, err := world.Spawn(controlClass, p.conn)
	if err == nil {
		err = p.lanes.begin(p.streams.config.backend())
	}
	if err != nil {
		p.fail(err)
	}
}

// Conn returns the connection.
func (p *Peer) Conn() *rpc.Conn { return p.conn }

// Inbox returns the peer's inbox, which holds the blobs that [ToInbox] delivers.
func (p *Peer) Inbox() *Inbox { return &p.inbox }

// onWorld reports whether the caller is on the world's goroutine, which must not block. For a nil
// Peer this is unknown, and onWorld returns false.
func (p *Peer) onWorld() bool { return p != nil && p.streams.world.Inside() }

// gone returns a channel that is closed when the connection has ended. By then live.err is
// set. For a nil Peer it's never closed.
func (p *Peer) gone() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.live.over
}

// start creates a transfer and queues it. The next tick may begin to send it.
func (p *Peer) start(h header, source source, opts []Option) (*Transfer, error) {
	if p == nil {
		return nil, fmt.Errorf("stream: %v is started to a nil *Peer", &h)
	}
	if h.topic == "" {
		return nil, fmt.Errorf("stream: the %v has no name; take what NewBlob or NewArray returned", h.kind)
	}
	o, err := resolve(&p.streams.config, opts)
	if err != nil {
		return nil, err
	}
	if h.kind != kindBlob && o.rate > 0 {
		return nil, fmt.Errorf("stream: %v: Rate is for blobs", &h)
	}
	h.key = o.key
	h.name = o.name
	h.hash = p.sender.hash(o.hash)
	t := newTransfer(p, h, o, source)
	if err := p.sender.start(t); err != nil {
		return nil, err
	}
	p.wake()
	return t, nil
}

// wake makes the next tick include p, and makes a world that waits for events tick now. It is
// safe for concurrent use.
func (p *Peer) wake() {
	p.call()
	p.streams.wake()
}

// call makes the next tick include p, whenever that is. It is safe for concurrent use.
func (p *Peer) call() { p.streams.callers.Call(p, &p.called) }

// Ticks skip a peer that nothing has woken, but only for checkInterval, or for idleInterval if
// the peer had nothing to do. They can't skip it for longer, because progress reports become due
// even if nothing happens.
const (
	checkInterval = 10 * time.Millisecond
	idleInterval  = 100 * time.Millisecond
)

// overdue reports whether a tick must include p although nothing has woken it.
func (p *Peer) overdue(now time.Time) bool {
	after := checkInterval
	if p.wasIdle {
		after = idleInterval
	}
	clockWasSet := now.Before(p.ticked)
	return now.Sub(p.ticked) >= after || clockWasSet
}

// tick handles what has arrived from the peer, and sends what the connection accepts.
func (p *Peer) tick(now time.Time) {
	p.ticked = now
	p.failIf(p.lanes.tick(now))
	p.wasIdle = p.hasNothingToDo()
	if p.wasIdle {
		return
	}
	p.streams.clock.start()

	// Let the queues hold as much as is sent in two ticks. With less, the path would idle
	// whenever the next tick is late.
	p.window.queue = max(defaultQueueTime, 2*p.streams.clock.interval)
	p.slices.queue = max(sliceQueueTime, 2*p.streams.clock.interval)
	p.window.update()

	// Take in what has arrived as slices. Parts on lanes have been handled by bindPipes already.
	p.slices.receive(p.receiver.onPart)
	p.receiver.openWaiting(time.Now())
	p.receiver.deliver()
	p.sender.collect()

	defer p.updateCounts()
	if p.control.open() {
		p.failIf(p.send(now))
	}
}

// send sends messages and parts for as long as they're due and the connection accepts them.
func (p *Peer) send(now time.Time) error {
	err := p.control.send(now)

	// Announce the bytes that are left before pump sends any of them. Otherwise parity (repair
	// data) might be sent ahead of the parts. Announce them again afterwards, because pump may
	// have sent the last part.
	unsent := p.sender.unsentBytes()
	extend.Expect(p.conn, unsent)
	if err == nil {
		err = p.sender.pump()
	}
	if unsent > 0 {
		extend.Expect(p.conn, p.sender.unsentBytes())
	}

	if err == nil {
		err = p.control.send(now) // the end messages of transfers whose last part has just left
	}
	p.slices.setEnded(p.sender.lastChunkGiven())
	return err
}

// failIf closes the connection if err is not nil, because this end can't continue. An error that
// only says that the connection is closed is no reason to close it.
func (p *Peer) failIf(err error) {
	if err != nil && !errors.Is(err, rpc.ErrClosed) {
		p.fail(err)
	}
}

// fail closes the connection because of an error at this end.
func (p *Peer) fail(err error) { p.conn.Close(rpc.HostClosedConnection, err.Error()) }

// violate closes the connection because the peer broke the protocol.
func (p *Peer) violate(format string, args ...any) {
	p.conn.Close(rpc.PayloadFail, "stream: "+fmt.Sprintf(format, args...))
}

// violateIf closes the connection if err is not nil, which means that the peer broke the protocol.
func (p *Peer) violateIf(err error) {
	if err != nil {
		p.violate("%v", err)
	}
}

// route returns the route for the parts of a transfer: lanes with the given settings, or
// slices if settings is nil.
func (p *Peer) route(settings *Window) route {
	if settings == nil {
		return p.slices
	}
	return &laneRoute{window: p.window, settings: settings}
}

// end is called when the world reports the end of the connection. It fails all transfers except
// those that were completed by the last parts to arrive.
func (p *Peer) end(cause error) {
	p.slices.receive(p.receiver.onPart)
	p.live.end(cause)
	p.lanes.idleAlarm.stop()
	p.sender.end()
	received := p.receiver.removeAll()
	p.streams.writing.End(&p.receiver.writing, extend.PartyOf(p.conn))
	p.account.Close()
	p.stocked.Close()
	p.window.lanes = nil
	p.updateCounts()
	tellEnds(received)
}

// watch makes sure that the transfers end soon after the connection, even if nobody drives the
// world anymore.
func (p *Peer) watch() { p.live.watch(p.conn, p.orphaned) }

// orphaned ends the transfers when the connection has ended and the world hasn't reported it
// in time. It runs on a goroutine of its own.
func (p *Peer) orphaned(cause error) {
	p.live.end(cause)
	p.stocked.Close()
	p.streams.remove(p)
}

// Stats returns counts of the peer's transfers. The counts of ended transfers and of slices are
// current. The counts of open transfers, content and lanes are as of the last tick. Stats is safe
// for concurrent use.
//
// The counts remain after the connection has ended. A program that adds up all connections
// should call Stats in its OnDisconnect. There, transfers that were in progress already count
// as failed.
func (p *Peer) Stats() Stats {
	s := p.counts.stats()
	chunks := p.slices.stats()
	s.Slices = chunks.Slices
	s.SlicesSealed = chunks.Fated
	s.SlicesResent = chunks.Resent
	s.RepairSlices = chunks.Repairs
	s.SlicesRestored = chunks.Restored
	s.SlicesRefused = chunks.Refused + chunks.Malformed
	return s
}

// hasNothingToDo reports whether a tick would find nothing to do. This is the case in most ticks
// of a game.
func (p *Peer) hasNothingToDo() bool {
	noTransfers := p.sender.idle() && len(p.receiver.receiving) == 0
	nothingToHandle := p.window.unackedBytes == 0 && !p.slices.link.news.Load()
	return p.control.greeted && noTransfers && nothingToHandle && p.counts.lastTick() == p.currentStats()
}

// currentStats returns the counts as of now, except for the counts that Stats adds.
func (p *Peer) currentStats() Stats {
	return Stats{
		Sending:       len(p.sender.sending),
		Waiting:       len(p.sender.queue.waiting),
		Receiving:     len(p.receiver.receiving),
		BytesSent:     p.sender.bytes,
		BytesReceived: p.receiver.bytes,
		Lanes:         len(p.window.lanes),
		PeakOut:       p.window.peakEntries,
		Slots:         p.window.slots,
		Late:          p.sender.late + p.receiver.late,
		Evicted:       p.receiver.evicted,
		Unstored:      p.counts.unstored.Load(),
	}
}

// updateCounts stores the counts of this tick for Stats.
func (p *Peer) updateCounts() { p.counts.update(p.currentStats()) }

// handle makes fn the handler of a message at both ends. The message has two RPCs, one for each
// direction.
func handle[A any](b *rpc.Binding[*Peer], p pair[A], fn func(*Peer, A)) {
	run := func(peer *Peer, _ *rpc.Call, arg A) {
		peer.call()
		fn(peer, arg)
	}
	rpc.On(b, rpc.Handle[A](p.up), run)
	rpc.On(b, rpc.Handle[A](p.down), run)
}

// bindPipes makes the Peer of a connection the object behind its control pipe and its lanes,
// so that rpc calls the Peer's handlers.
func bindPipes(s *Streams) {
	pipe := rpc.Bind(s.world, controlClass, func(a *rpc.Actor) *Peer {
		p := s.joinedPeer(a.Conn())
		p.control.pipe = a
		p.call()
		return p
	})
	handle(pipe, sendLimits, func(p *Peer, m limits) { p.control.onLimits(m) })
	handle(pipe, sendHeader, func(p *Peer, h header) { p.receiver.onHeader(h) })
	handle(pipe, sendEnd, func(p *Peer, m end) { p.receiver.onEnd(m) })
	handle(pipe, sendCancel, func(p *Peer, m stop) { p.receiver.onCancel(m) })
	handle(pipe, sendAccept, func(p *Peer, m accept) { p.sender.onAccept(m) })
	handle(pipe, sendGrant, func(p *Peer, m grant) { p.sender.onGrant(m) })
	handle(pipe, sendReject, func(p *Peer, m stop) { p.sender.onReject(m) })
	handle(pipe, sendDone, func(p *Peer, m done) { p.sender.onDone(m) })

	lanes := rpc.Bind(s.world, laneClass, func(a *rpc.Actor) *Peer {
		p := s.joinedPeer(a.Conn())
		if len(p.window.lanes) < maxLanes { // we don't send on more lanes than that
			p.window.lanes = append(p.window.lanes, a)
			p.lanes.touched = true
			p.call()
		}
		return p
	})
	handle(lanes, sendPart, func(p *Peer, message rpc.Raw) {
		p.lanes.touched = true
		p.receiver.onPart(message)
	})
	rpc.On(lanes, leaveLane, func(p *Peer, call *rpc.Call, _ rpc.Raw) { p.lanes.onLeave(call.Actor) })
}

// # Alarms

// An alarm makes a tick include a peer after some time. Without it, a world that waits for events
// wouldn't tick then. It is set for a transfer, for lanes, or for a shortage of memory.
//
// The timer runs on a goroutine of its own, but set and stop must not be called concurrently.
type alarm struct {
	timer *time.Timer // nil until it is first set
	runs  atomic.Bool // the timer is running; cleared on the timer's goroutine
}

// set wakes p after d, unless the timer is already running.
func (a *alarm) set(p *Peer, d time.Duration) {
	if a.runs.CompareAndSwap(false, true) {
		a.timer = time.AfterFunc(d, func() {
			a.runs.Store(false) // first, since the tick that wake causes may set the alarm again
			p.wake()
		})
	}
}

// stop stops the timer.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
