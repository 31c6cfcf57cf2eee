package stream

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/guest"
	"github.com/quivernet/quiver/rpc"
)

// Peer is the streams of one connection.
type Peer struct {
	streams *Streams
	conn    *rpc.Conn

	live    *live
	account *budget.Account      // of what the peer makes this end hold
	stocked *budget.StockAccount // of what this end holds for the peer

	mu       sync.Mutex
	starting []*Transfer // by Start, for the next tick
	stats    Stats       // as of the last tick
	unstored uint64

	hashes atomic.Uint32 // the Algorithm that the peer hashes with the fastest; 0 until it says
	joined bool          // the world will tell of the end; guarded by Streams.mu
	awake  atomic.Bool   // the next tick finds something to do

	// What follows belongs to the world's goroutine.
	ticked  time.Time
	control *rpc.Actor
	window  *window
	slices  *sliceRoute
	lanes   lanes
	greeted bool // our limits were sent

	// Outgoing.
	taken   int         // incoming transfers that the peer takes at once; 1 until it says
	early   int64       // bytes that it takes before it has answered their headers
	queue   []*Transfer // wait for one of them to end
	sending []*Transfer // header sent, no last word yet; by id
	lastID  uint64
	shares  shares

	// Incoming, by id.
	receiving  []*incoming
	lastHeader uint64 // of the peer
	ahead      int64  // bytes of parts whose transfers were not answered
	late       uint64 // parts and messages of transfers that had ended, dropped
}

func newPeer(s *Streams, conn *rpc.Conn) *Peer {
	p := &Peer{
		streams: s, conn: conn, live: newLive(), taken: 1, early: minPending, lanes: lanes{asked: 1},
		window: &window{conn: conn}, slices: newSliceRoute(conn),
		account: sliceLinkOf(conn).account,
		stocked: s.stock.NewAccount(),
	}
	p.window.stocked = p.stocked
	return p
}

// Conn returns the connection.
func (p *Peer) Conn() *rpc.Conn { return p.conn }

// inside reports whether the caller drives the peer's world; of no peer it does not.
func (p *Peer) inside() bool { return p != nil && p.streams.world.Inside() }

// start queues a transfer for the next tick.
func (p *Peer) start(h header, source source, opts []Option) (*Transfer, error) {
	if p == nil {
		return nil, fmt.Errorf("stream: %v is started to a nil *Peer", &h)
	}
	o, err := resolve(&p.streams.config, opts)
	if err != nil {
		return nil, err
	}
	h.key, h.name, h.hash = o.key, o.name, p.hash(o.hash)
	t := newTransfer(p, h, o, source)
	if err := p.admit(t); err != nil {
		return nil, err
	}
	p.wake()
	return t, nil
}

func (p *Peer) admit(t *Transfer) error {
	if err := p.conn.Err(); err != nil {
		return fmt.Errorf("%w: %v: %w", ErrClosed, &t.header, err)
	}
	n, err := p.live.send(t, p.streams.config.maxQueued())
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting = append(p.starting, t)
	if n <= readAtOnce {
		t.read()
	}
	return nil
}

// readAtOnce is how many transfers of a peer read ahead before their turn has come.
const readAtOnce = 4

// end fails everything that the connection carried.
func (p *Peer) end(cause error) {
	p.live.end(cause)
	if p.lanes.timer != nil {
		p.lanes.timer.Stop()
	}
	p.collect()
	receiving := p.receiving
	p.queue, p.sending, p.receiving = nil, nil, nil
	for _, in := range receiving {
		p.streams.settle(in)
	}
	p.account.Close()
	p.stocked.Close()
	tellEnds(receiving)
}

// tellEnds runs all OnEnd, also when one panics.
func tellEnds(all []*incoming) {
	if len(all) > 0 {
		defer tellEnds(all[1:])
		all[0].tellEnd()
	}
}

// watch ends the transfers some time after the connection if the world does not.
func (p *Peer) watch() { p.live.watch(p.conn, p.orphaned) }

// orphaned ends the transfers of a connection of whose end the world has not told.
func (p *Peer) orphaned(cause error) {
	p.live.end(cause)
	p.stocked.Close()
	p.streams.forget(p)
}

// wake has the next tick look at p, and a world that waits for events tick.
func (p *Peer) wake() {
	p.awake.Store(true)
	p.streams.wake()
}

// lookAgain is how long a tick passes a peer by of whom nothing was heard: what is due by time alone, a report of progress,
// is due ten times less often.
const lookAgain = 10 * time.Millisecond

// due reports whether a tick is to look at p.
func (p *Peer) due(now time.Time) bool {
	woken := guest.Woken(p.conn) // it forgets that it was asked, as awake does
	return p.awake.Swap(false) || woken || now.Sub(p.ticked) >= lookAgain || now.Before(p.ticked)
}

// tick sends what can leave now.
func (p *Peer) tick(now time.Time) {
	p.ticked = now
	if err := p.keepLanes(now); err != nil && !errors.Is(err, rpc.ErrClosed) {
		p.streams.fail(p, err)
	}
	if p.quiet() {
		return
	}
	p.window.note()
	p.slices.received(p.onPart)
	for _, in := range p.receiving {
		in.deliverTick()
	}
	p.collect()
	defer p.count()
	if p.control == nil || !p.control.Alive() {
		return
	}
	err := p.sendControl(now)
	if err == nil {
		err = p.pump()
	}
	if err == nil {
		err = p.sendControl(now) // the ends of what the pump has sent
	}
	p.slices.end(p.sliceTail())
	if err != nil && !errors.Is(err, rpc.ErrClosed) {
		p.streams.fail(p, err)
	}
}

// sliceTail reports whether all parts that travel as chunks were given to the machine.
func (p *Peer) sliceTail() bool {
	return !slices.ContainsFunc(p.sending, func(t *Transfer) bool {
		_, chunks := t.opts.via.(Slices)
		return chunks && !t.endSent && !t.have && !t.isFinished()
	})
}

// collect takes what Start queued, and forgets what was canceled before its turn came.
func (p *Peer) collect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, p.starting...)
	clear(p.starting)
	p.starting = p.starting[:0]
	p.queue = slices.DeleteFunc(p.queue, func(t *Transfer) bool {
		finished := t.isFinished()
		if finished {
			p.live.sent(t)
		}
		return finished
	})
}

// sendControl sends the messages that are due, as far as the control pipe takes them. What is due is state, not a
// queue, so that a slow peer makes nothing pile up.
func (p *Peer) sendControl(now time.Time) error {
	gate := Gate{QueueTime: time.Hour} // it stands above bulk, and what it carries is small
	channel := p.control.Channel(p.conn)
	for gate.Open(channel) {
		more, err := p.sendOne(now)
		if err != nil || !more {
			return err
		}
	}
	gate.watch(channel)
	return nil
}

// sendOne sends the first control message that is due.
func (p *Peer) sendOne(now time.Time) (sent bool, err error) {
	if sent, err = p.greet(); sent || err != nil {
		return sent, err
	}
	for i, in := range p.receiving {
		sent, over, err := in.sendControl(p.control, now)
		if over {
			p.receiving = slices.Delete(p.receiving, i, i+1)
			p.live.received(in)
			p.streams.settle(in)
			in.tellEnd()
		}
		if sent || err != nil {
			return sent, err
		}
	}
	for i, t := range p.sending {
		if t.over {
			p.sending = slices.Delete(p.sending, i, i+1)
			p.live.sent(t)
			return true, nil
		}
		if sent, err = t.sendControl(p.control); sent || err != nil {
			return sent, err
		}
	}
	return p.begin()
}

// greet says what this end takes, first of all, and again when it wants more lanes.
func (p *Peer) greet() (bool, error) {
	if p.greeted {
		return false, nil
	}
	p.greeted = true
	m := limits{transfers: p.streams.config.maxTransfers(), lanes: p.lanes.asked, early: int(p.streams.config.early()), hashes: p.streams.config.hashes()}
	return true, sendLimits.call(p.control, m)
}

// begin sends the header of the next transfer, if the peer takes one more.
func (p *Peer) begin() (bool, error) {
	if len(p.queue) == 0 || len(p.sending) >= p.taken {
		return false, nil
	}
	t := p.queue[0]
	p.queue = p.queue[1:]
	_, slots := p.control.Channel(p.conn).Reliable() // lanes have as many
	if err := t.opts.checkEntries(slots); err != nil {
		t.finish(err)
		p.live.sent(t)
		return true, nil
	}
	p.lastID++
	t.header.id = p.lastID
	t.limit = min(t.header.early(), p.earlyLeft())
	p.sending = append(p.sending, t)
	p.shares.join(&t.share)
	t.read()
	if err := p.wantLanes(t); err != nil {
		return false, err
	}
	return true, sendHeader.call(p.control, t.header)
}

// earlyLeft is how many bytes may be sent ahead of one more answer.
func (p *Peer) earlyLeft() int64 {
	left := p.early
	for _, t := range p.sending {
		if !t.accepted {
			left -= t.limit
		}
	}
	return max(left, 0)
}

// pump sends parts, each of the transfer that is furthest behind its share, while lanes are open.
func (p *Peer) pump() error {
	for _, t := range p.sending {
		t.refreshWeight()
		t.blocked = false
	}
	for {
		t := p.neediest()
		switch {
		case t == nil:
			return nil
		case !p.route(t.opts.via).open(t.opts.via):
			if err := p.widen(t); err != nil {
				return err
			}
			p.route(t.opts.via).watch(t.opts.via)
			t.blocked = true
			continue
		}
		switch err := t.sendPart(p.route(t.opts.via)); {
		case errors.Is(err, rpc.ErrClosed):
			return err
		case err != nil:
			t.finish(err)
		}
	}
}

// route returns what carries the parts of a backend.
func (p *Peer) route(via Backend) route {
	if _, ok := via.(Slices); ok {
		return p.slices
	}
	return p.window
}

// hold charges content. Where there is no room for it, the memory that is spare for slices makes some.
func (p *Peer) hold(n int64) bool {
	if p.account.Hold(n, false) {
		return true
	}
	p.slices.shrink()
	return p.account.Hold(n, false)
}

// neediest returns, of the transfers that have a part to send, the one that is furthest behind its share.
func (p *Peer) neediest() *Transfer {
	var next *Transfer
	for _, t := range p.sending {
		switch {
		case t.blocked:
		case !t.hasPart():
			p.shares.join(&t.share)
		case next == nil || t.share.spent < next.share.spent:
			next = t
		}
	}
	return next
}

// Stats returns the state as of the last tick. It is safe from any goroutine.
func (p *Peer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

func (p *Peer) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats = p.snapshot()
}

// quiet reports whether a tick would find nothing to do, as in most of a game's.
func (p *Peer) quiet() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.greeted && len(p.starting)+len(p.queue)+len(p.sending)+len(p.receiving) == 0 &&
		p.window.held == 0 && !p.slices.link.news.Load() && p.stats == p.snapshot()
}

// snapshot is the state now. The lock is held.
func (p *Peer) snapshot() Stats {
	chunks := &p.slices.stats
	return Stats{
		Sending: len(p.sending), Waiting: len(p.queue), Receiving: len(p.receiving),
		Lanes: len(p.window.lanes), PeakOut: p.window.peak, Slots: p.window.slots, Late: p.late, Unstored: p.unstored,
		Slices: chunks.Slices, SlicesSealed: chunks.Fated, SlicesResent: chunks.Resent,
		RepairSlices: chunks.Repairs, SlicesRestored: chunks.Restored, SlicesRefused: chunks.Refused + chunks.Malformed,
	}
}

// countUnstored counts a transfer that goes on without its store.
func (p *Peer) countUnstored() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unstored++
}

// Stats is a snapshot of a peer's streams.
type Stats struct {
	Sending, Waiting, Receiving  int    // transfers; those that wait have not sent their header
	Lanes                        int    // open
	PeakOut, Slots               int    // entries that a lane ever had outstanding, of its reliable buffer
	Slices, SlicesResent         uint64 // sent; of them, again
	SlicesSealed                 uint64 // of those sent, in sealed packets
	RepairSlices, SlicesRestored uint64 // sent; made at this end from those that came
	SlicesRefused                uint64 // that came beyond the credit, or malformed; they were dropped
	Late                         uint64 // parts and messages of transfers that had ended; they were dropped
	Unstored                     uint64 // incoming transfers with a key that the Store had no room for; they can not be resumed
}
