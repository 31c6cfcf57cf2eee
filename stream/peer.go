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

	live  *liveSet // ends the transfers when the connection ends; safe for concurrent use
	inbox Inbox    // blobs that ToInbox delivers

	// Memory. Safe for concurrent use.
	account *budget.Account      // charged for content that the peer makes us hold
	stocked *budget.StockAccount // charged for content that we have read for the peer

	counts peerCounts // for Stats; safe for concurrent use

	// The two directions. Used by the world's goroutine only, except as documented in sender.
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
	wasIdle   bool        // there was nothing to do in the last tick
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
		// At a client, atOnce is 0 until the server's limits arrive, right after the pipe opens.
		p.sender.atOnce = 1
	}
	p.receiver.peer, p.receiver.streams = p, s
	p.window = &window{conn: conn, stocked: p.stocked}
	p.lanes.peer = p
	p.lanes.wanted = 1
	extend.OnWake(conn, p.call)
	return p
}

// connected is called when the connection has joined. A server then opens the control pipe and
// the first lanes. A client gets them through the constructors that bindPipes registers.
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

// gone returns a channel that is closed when the connection has ended and live.err is set. For a
// nil Peer, it's never closed.
func (p *Peer) gone() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.live.closed
}

// start creates a transfer and queues it. The next tick may begin to send it.
func (p *Peer) start(h header, source source, opts []Option) (*Transfer, error) {
	if p == nil {
		return nil, fmt.Errorf("stream: Start of %v: peer is nil", &h)
	}
	if h.topic == "" {
		return nil, fmt.Errorf("stream: Start of %v without a name: use NewBlob or NewArray", h.kind)
	}
	o, err := resolve(&p.streams.config, opts)
	if err != nil {
		return nil, err
	}
	if h.kind != kindBlob && o.rate > 0 {
		return nil, fmt.Errorf("stream: Start of %v: Rate applies to blobs only", &h)
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

// wake makes the next tick include p, and makes a world that waits for events tick immediately. It
// is safe for concurrent use.
func (p *Peer) wake() {
	p.call()
	p.streams.wake()
}

// call makes the next tick include p, whenever that is. It is safe for concurrent use.
func (p *Peer) call() { p.streams.callers.Call(p, &p.called) }

// Ticks skip a peer that nothing has woken, but only for checkInterval or, if the peer had nothing
// to do, for idleInterval. They can't skip it for longer because progress reports become due even
// if nothing happens.
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

	// Let the queues hold as much as is sent in two ticks, because with less, the path would be
	// idle whenever the next tick is late.
	p.window.queue = max(defaultQueueTime, 2*p.streams.clock.interval)
	p.slices.queue = max(sliceQueueTime, 2*p.streams.clock.interval)
	p.window.update()

	// Handle what has arrived as slices. Parts on lanes were already handled when they arrived.
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

	// Announce the unsent bytes before pump sends any of them, because parity (repair data) might
	// otherwise be sent ahead of the parts. Announce them again afterwards, because pump may have
	// sent the last part.
	unsent := p.sender.unsentBytes()
	extend.Expect(p.conn, unsent)
	if err == nil {
		err = p.sender.pump()
	}
	if unsent > 0 {
		extend.Expect(p.conn, p.sender.unsentBytes())
	}

	if err == nil {
		err = p.control.send(now) // the end messages of transfers whose last part was just sent
	}
	p.slices.setEnded(p.sender.allChunksSent())
	return err
}

// failIf closes the connection if err is not nil, because this end can't continue, unless err only
// says that the connection is already closed.
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
	p.live.failAll(cause)
	p.lanes.idleAlarm.stop()
	p.sender.end()
	received := p.receiver.removeAll()
	p.streams.writing.End(&p.receiver.writing, extend.PartyOf(p.conn))
	p.account.Close()
	p.stocked.Close()
	p.window.lanes = nil
	p.updateCounts()
	notifyEnds(received)
}

// watch ensures that the transfers end soon after the connection, even if the world is no longer
// driven.
func (p *Peer) watch() { p.live.watch(p.conn, p.orphaned) }

// orphaned ends the transfers when the connection has ended but the world hasn't reported it
// within endGrace. It runs on its own goroutine.
func (p *Peer) orphaned(cause error) {
	p.live.failAll(cause)
	p.stocked.Close()
	p.streams.remove(p)
}

// Stats returns counts of the peer's transfers. Sent, Received, Failed, Unstored and the counts of
// slices are current, whereas all others are as of the last tick. Stats is safe for concurrent use.
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

// hasNothingToDo reports whether a tick would have nothing to do, as is the case in most ticks of a
// game.
func (p *Peer) hasNothingToDo() bool {
	noTransfers := p.sender.idle() && len(p.receiver.receiving) == 0
	nothingToHandle := p.window.unackedBytes == 0 && !p.slices.link.woken.Load()
	return p.control.greeted && noTransfers && nothingToHandle && p.counts.tickStats() == p.currentStats()
}

// currentStats returns the current values of the counts that updateCounts stores.
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
	}
}

// updateCounts stores the counts of this tick for Stats.
func (p *Peer) updateCounts() { p.counts.setTickStats(p.currentStats()) }

// handle makes fn the handler of a message at both ends. The message has two RPCs, one for each
// direction.
func handle[A any](b *rpc.Binding[*Peer], m messageType[A], fn func(*Peer, A)) {
	run := func(peer *Peer, _ *rpc.Call, arg A) {
		peer.call()
		fn(peer, arg)
	}
	rpc.On(b, rpc.Handle[A](m.up), run)
	rpc.On(b, rpc.Handle[A](m.down), run)
}

// bindPipes makes a connection's Peer the object behind its control pipe and its lanes, so that
// package rpc calls the Peer's handlers.
func bindPipes(s *Streams) {
	pipe := rpc.Bind(s.world, controlClass, func(a *rpc.Actor) *Peer {
		p := s.joinedPeer(a.Conn())
		p.control.pipe = a
		p.call()
		return p
	})
	handle(pipe, limitsMessage, func(p *Peer, m limits) { p.control.onLimits(m) })
	handle(pipe, headerMessage, func(p *Peer, h header) { p.receiver.onHeader(h) })
	handle(pipe, endMessage, func(p *Peer, m end) { p.receiver.onEnd(m) })
	handle(pipe, cancelMessage, func(p *Peer, m stop) { p.receiver.onCancel(m) })
	handle(pipe, acceptMessage, func(p *Peer, m accept) { p.sender.onAccept(m) })
	handle(pipe, grantMessage, func(p *Peer, m grant) { p.sender.onGrant(m) })
	handle(pipe, rejectMessage, func(p *Peer, m stop) { p.sender.onReject(m) })
	handle(pipe, doneMessage, func(p *Peer, m done) { p.sender.onDone(m) })

	lanes := rpc.Bind(s.world, laneClass, func(a *rpc.Actor) *Peer {
		p := s.joinedPeer(a.Conn())
		p.lanes.onOpen(a)
		return p
	})
	handle(lanes, partMessage, func(p *Peer, message rpc.Raw) {
		p.lanes.touch()
		p.receiver.onPart(message)
	})
	rpc.On(lanes, leaveMessage, func(p *Peer, call *rpc.Call, _ rpc.Raw) { p.lanes.onLeave(call.Actor) })
}

// # Alarms

// An alarm wakes a peer after some time, because a world that waits for events would otherwise not
// tick. Transfers, lanes and the wait for memory each have one.
//
// set and stop must not be called concurrently.
type alarm struct {
	timer   *time.Timer // nil until it is first set
	running atomic.Bool // cleared on the timer's goroutine
}

// set wakes p after d, unless the timer is already running.
func (a *alarm) set(p *Peer, d time.Duration) {
	if a.running.CompareAndSwap(false, true) {
		a.timer = time.AfterFunc(d, func() {
			a.running.Store(false) // first, since the tick that wake causes may set the alarm again
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
