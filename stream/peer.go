package stream

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// A Peer holds the transfers of one connection. [Streams.Peer] returns it.
type Peer struct {
	streams *Streams
	conn    *rpc.Conn
	joined  bool // the world will report the end of the connection; guarded by Streams.mu

	// Safe for concurrent use.
	live     *live
	account  *budget.Account      // charged for what the peer makes this end hold
	stocked  *budget.StockAccount // charged for what this end has read for the peer
	called   atomic.Bool          // the peer is in Streams.callers
	unstored atomic.Uint64        // incoming transfers with a key that continue without the store
	sent     atomic.Uint64        // outgoing transfers that the peer consumed
	received atomic.Uint64        // incoming transfers that this end consumed
	failed   atomic.Uint64        // transfers that ended in any other way

	mu    sync.Mutex // guards stats
	stats Stats      // as of the last tick

	inbox Inbox // blobs that ToInbox delivers

	// The state of transfers at this end. Used by the world's goroutine only, except where
	// sender says otherwise.
	control  control  // exchanges messages about transfers
	sender   sender   // transfers to the peer
	receiver receiver // transfers from the peer

	// The routes of parts. Used by the world's goroutine only.
	window *window     // as reliable RPCs on lanes
	slices *sliceRoute // as slices of chunks
	lanes  lanes       // decides how many lanes window should have

	// Used by the world's goroutine only.
	ticks  bool      // ticks include the peer: its connection has joined and has not ended
	listed bool      // the peer is in Streams.due
	rests  bool      // the last tick found nothing to do
	ticked time.Time // when a tick last included the peer
}

// newPeer returns the peer of conn.
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
		p.sender.atOnce = 1 // a client gets the server's limits as soon as it has a pipe to begin on
	}
	p.receiver.peer = p
	p.window = &window{conn: conn, stocked: p.stocked}
	p.lanes.peer = p
	p.lanes.asked = 1
	extend.OnWake(conn, p.call)
	return p
}

// connected opens the control pipe and the first lanes of a connection, at a server. At a
// client, bindPipes adopts them when they arrive.
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

// inside reports whether the caller is on the goroutine of the peer's world. It returns false
// if p is nil.
func (p *Peer) inside() bool { return p != nil && p.streams.world.Inside() }

// gone returns a channel that is closed when the connection has ended, after live.err was set.
// If p is nil, the channel is never closed.
func (p *Peer) gone() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.live.over
}

// start creates a transfer and queues it for the next tick.
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

// wake makes the next tick include p, and wakes a world that waits for events. It is safe for
// concurrent use.
func (p *Peer) wake() {
	p.call()
	p.streams.wake()
}

// call makes the next tick include p. It is safe for concurrent use.
func (p *Peer) call() { p.streams.callers.Call(p, &p.called) }

// An alarm makes a tick include a peer after a given time. A world that waits for events would
// not tick by itself. set and stop must not be called concurrently.
type alarm struct {
	timer *time.Timer // nil until it is first set
	runs  atomic.Bool // the timer is running; cleared on the timer's goroutine
}

// set wakes p after d, unless the timer is already running.
func (a *alarm) set(p *Peer, d time.Duration) {
	if a.runs.CompareAndSwap(false, true) {
		a.timer = time.AfterFunc(d, func() {
			a.runs.Store(false) // before the tick that this causes, or that has already begun
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

// A tick skips a peer that nothing has woken, but no longer than checkInterval, or
// restInterval if the peer had nothing to do. It can't be skipped forever, because reports of
// progress are due by time alone.
const (
	checkInterval = 10 * time.Millisecond
	restInterval  = 100 * time.Millisecond
)

// overdue reports whether a tick must include p although nothing has woken it.
func (p *Peer) overdue(now time.Time) bool {
	after := checkInterval
	if p.rests {
		after = restInterval
	}
	return now.Sub(p.ticked) >= after || now.Before(p.ticked)
}

// tick handles what was received from the peer, and sends what may be sent to it.
func (p *Peer) tick(now time.Time) {
	p.ticked = now
	p.must(p.lanes.tick(now))
	p.rests = p.quiet()
	if p.rests {
		return
	}
	p.streams.begin()

	// The queues may hold what is sent in two ticks. With less, the path would idle when the
	// next tick is late.
	p.window.queue = max(defaultQueueTime, 2*p.streams.interval)
	p.slices.queue = max(sliceQueueTime, 2*p.streams.interval)
	p.window.note()
	p.slices.received(p.receiver.onPart)
	p.receiver.openWaiting(time.Now())
	p.receiver.deliver()
	p.sender.collect()

	defer p.count()
	if p.control.open() {
		p.must(p.send(now))
	}
}

// send sends the messages and parts that are due and that the connection accepts.
func (p *Peer) send(now time.Time) error {
	err := p.control.send(now)

	// Announce the bytes before pump, so that no parity is sent ahead of the parts. Announce
	// the rest after pump, because these parts may have been the last.
	left := p.sender.left()
	extend.Expect(p.conn, left)
	if err == nil {
		err = p.sender.pump()
	}
	if left > 0 {
		extend.Expect(p.conn, p.sender.left())
	}

	if err == nil {
		err = p.control.send(now) // the ends of transfers whose last part was just sent
	}
	p.slices.end(p.sender.lastChunkGiven())
	return err
}

// must closes the connection after an error at this end, unless err says that the connection
// is already closed.
func (p *Peer) must(err error) {
	if err != nil && !errors.Is(err, rpc.ErrClosed) {
		p.fail(err)
	}
}

// fail closes the connection because of an error at this end.
func (p *Peer) fail(err error) { p.conn.Close(rpc.HostClosedConnection, err.Error()) }

// violate closes the connection of a peer that broke a rule.
func (p *Peer) violate(format string, args ...any) {
	p.conn.Close(rpc.PayloadFail, "stream: "+fmt.Sprintf(format, args...))
}

// check closes the connection if err is not nil, which means that the peer broke a rule.
func (p *Peer) check(err error) {
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

// end is called when the world reports the end of the connection. It fails all transfers,
// except those that are completed by the last parts received.
func (p *Peer) end(cause error) {
	p.slices.received(p.receiver.onPart)
	p.live.end(cause)
	p.lanes.idle.stop()
	p.sender.end()
	received := p.receiver.end()
	p.streams.writing.End(&p.receiver.writing, extend.PartyOf(p.conn))
	p.account.Close()
	p.stocked.Close()
	p.window.lanes = nil
	p.count()
	tellEnds(received)
}

// watch makes the transfers end some time after the connection, even if the world does not end
// them.
func (p *Peer) watch() { p.live.watch(p.conn, p.orphaned) }

// orphaned ends the transfers if the world did not report the end of the connection in time.
// It runs on a goroutine of its own.
func (p *Peer) orphaned(cause error) {
	p.live.end(cause)
	p.stocked.Close()
	p.streams.forget(p)
}

// Stats returns counts of the peer's transfers. Those of open transfers, content and lanes are
// as of the last tick, and those of ended transfers and slices as of now. Stats is safe for
// concurrent use.
//
// The counts remain after the connection has ended. A program that adds up all connections
// should call Stats in its OnDisconnect. There, transfers that were in progress already count
// as failed.
func (p *Peer) Stats() Stats {
	s := p.counted()
	chunks := p.slices.stats()
	s.Sent = p.sent.Load()
	s.Received = p.received.Load()
	s.Failed = p.failed.Load()
	s.Slices = chunks.Slices
	s.SlicesSealed = chunks.Fated
	s.SlicesResent = chunks.Resent
	s.RepairSlices = chunks.Repairs
	s.SlicesRestored = chunks.Restored
	s.SlicesRefused = chunks.Refused + chunks.Malformed
	return s
}

// counted returns the counts as of the last tick.
func (p *Peer) counted() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// count stores the counts of this tick for Stats.
func (p *Peer) count() {
	now := p.snapshot()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats = now
}

// quiet reports whether a tick would find nothing to do. That is so in most ticks of a game.
func (p *Peer) quiet() bool {
	return p.control.greeted && p.sender.idle() && len(p.receiver.receiving) == 0 &&
		p.window.held == 0 && !p.slices.link.news.Load() && p.counted() == p.snapshot()
}

// snapshot returns the counts as of now, except those of ended transfers and slices.
func (p *Peer) snapshot() Stats {
	return Stats{
		Sending:       len(p.sender.sending),
		Waiting:       len(p.sender.queue),
		Receiving:     len(p.receiver.receiving),
		BytesSent:     p.sender.bytes,
		BytesReceived: p.receiver.bytes,
		Lanes:         len(p.window.lanes),
		PeakOut:       p.window.peak,
		Slots:         p.window.slots,
		Late:          p.sender.late + p.receiver.late,
		Evicted:       p.receiver.evicted,
		Unstored:      p.unstored.Load(),
	}
}

// noteEnd counts a transfer that has ended: in done if err is nil, and otherwise as failed.
func (p *Peer) noteEnd(done *atomic.Uint64, err error) {
	if err != nil {
		done = &p.failed
	}
	done.Add(1)
}

// handle makes fn the handler of a message, at either end.
func handle[A any](b *rpc.Binding[*Peer], p pair[A], fn func(*Peer, A)) {
	run := func(peer *Peer, _ *rpc.Call, arg A) {
		peer.call()
		fn(peer, arg)
	}
	rpc.On(b, rpc.Handle[A](p.up), run)
	rpc.On(b, rpc.Handle[A](p.down), run)
}

// bindPipes makes the Peer of a connection the object of its control pipe and its lanes. rpc
// then calls the Peer's handlers.
func bindPipes(s *Streams) {
	pipe := rpc.Bind(s.world, controlClass, func(a *rpc.Actor) *Peer {
		p := s.peer(a.Conn(), true)
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
		p := s.peer(a.Conn(), true)
		if len(p.window.lanes) < maxLanes {
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
