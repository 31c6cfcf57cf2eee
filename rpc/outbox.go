package rpc

import (
	"cmp"
	"errors"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/outbox"
	"github.com/quivernet/quiver/internal/state"
)

// stateOutbox holds the states that a server's connection has yet to send to its client, and
// the updates in flight. It is used only by the world's goroutine.
type stateOutbox struct {
	dirty    []*opening     // openings whose client may lack something; compose removes the others
	heldBack bool           // the last Flush did not have room for all
	room     stateRoom      // decides how many bytes a Flush may hand to the machine
	sent     sentStates     // updates in flight
	fates    [64]bunch.Fate // scratch, for settleStates

	resync      bool          // the client lacks things it acknowledged, and requests everything again
	resyncAt    time.Time     // time of the last answer to such a request, by the game's clock
	resyncPause time.Duration // minimum time from resyncAt to the next answer
}

// pending reports whether the next Flush has work, because states wait or updates are in flight.
func (s *stateOutbox) pending() bool {
	return s.resync || len(s.dirty) > 0 || s.sent.any()
}

// sentState is an update that was handed to the machine and whose fate is not yet known:
// whether it arrived, was lost or was taken back.
type sentState struct {
	to     *opening
	fields state.Mask // fields to send again if it is lost; 0 for an early update, or one with calls
	list   bool       // fields is a list
	items  []uint32   // if list, the numbers of the items
	calls  []byte     // calls of ForceQueue methods; if there are any, fields is 0
	at     time.Time  // time when it was handed over
	since  time.Time  // opening.since before that
}

// settle is called when the fate of an update is known.
func (s *sentState) settle() {
	// list is a separate field because a look-up in the class would
	// touch memory that most updates do not need.
	if s.list {
		s.to.listsInFlight--
	}
}

// sentStates are the updates in flight. The machine identifies each by the number of its record.
type sentStates struct {
	records []sentState
	free    []uint64 // numbers of unused records
}

// any reports whether updates are in flight.
func (s *sentStates) any() bool { return len(s.free) < len(s.records) }

// record takes an unused record for an update of o. It stores
// o.since, so the caller may then change that.
func (s *sentStates) record(o *opening, now time.Time) (number uint64, sent *sentState) {
	if n := len(s.free); n > 0 {
		number = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		number = uint64(len(s.records))
		s.records = append(s.records, sentState{})
	}
	sent = &s.records[number]
	sent.to = o
	sent.at = now
	sent.since = o.since
	return number, sent
}

// release marks a record as unused. The next update reuses the memory of its items and calls.
func (s *sentStates) release(number uint64) {
	sent := &s.records[number]
	*sent = sentState{items: sent.items[:0], calls: sent.calls[:0]}
	s.free = append(s.free, number)
}

// stateRoom decides how many bytes of updates a Flush hands to the
// machine. This is about as much as the machine sends until the next
// Flush, and not more than keeps the path's queue short.
type stateRoom struct {
	machine outbox.Room // estimates how much the machine sends between two Flushes
	path    state.Pace  // limits the rate by the path's queue
	began   time.Time   // time of the first Flush, by the link's clock; path counts from it
	given   int         // bytes that the last Flush handed over
}

// open returns the room for this Flush, in bytes.
//
// unsent is the number of bytes of the last Flush's updates that were not
// sent and were taken back. behind is true if there were any, or if the
// last Flush did not have room for all updates.
func (s *stateRoom) open(clock time.Time, machine *bunch.Conn, unsent int, behind bool) int {
	if s.began.IsZero() {
		s.began = clock
	}
	s.machine.Adapt(unsent)
	since := clock.Sub(s.began)
	recent, least, rounds := machine.RecentRTT()
	s.path.Look(since, recent, least, rounds, s.given-unsent, behind)
	s.path.Sent(-unsent)
	return s.path.Room(since, s.machine.Bytes())
}

// stateCrowd summarises the state pace of all connections of a world.
type stateCrowd struct {
	state.Crowd
	at time.Time // time of the count, by the link's clock
}

// crowdAt returns the summary of the paces of all connections. It is at most crowdPeriod old.
func (w *World) crowdAt(clock time.Time) state.Crowd {
	if clock.Sub(w.crowd.at) < crowdPeriod {
		return w.crowd.Crowd
	}
	w.crowd = stateCrowd{at: clock}
	for _, c := range w.announced {
		if room := &c.shown.state.room; !room.began.IsZero() {
			w.crowd.Add(&room.path, clock.Sub(room.began))
		}
	}
	return w.crowd.Crowd
}

const (
	// crowdPeriod is how long a summary of the connections' paces is used. It is shorter
	// than a pacing round. Counting 1,024 connections takes a few microseconds.
	crowdPeriod = 100 * time.Millisecond

	// maxUpdates is the maximum number of updates that a Flush hands to the
	// machine for one connection. The machine holds 256 KiB and counts 64 bytes
	// for each update on top of the update's own bytes. It therefore has room for
	// these updates and for the largest outbox.Room.
	maxUpdates = 2000

	// resyncPeriod is the minimum time between two answers to a client that
	// requests everything again. After an answer with more than a thousand
	// actors, the minimum is resyncEach for each actor.
	//
	// A client can ask with a single byte, but the answer can be expensive. Opening 5,000
	// dormant actors with lists, and making them dormant again, takes 30 ms.
	resyncPeriod = time.Second
	resyncEach   = time.Millisecond

	// updateHeader is about how many bytes a bunch adds to an update: flags, channel and
	// length. An estimate is enough, because it only reduces the room.
	updateHeader = 6

	// updateReserve is the room that an update leaves for its mask, which takes at most 9
	// bytes.
	updateReserve = 16
)

// sendState is called at each Flush. It takes back the updates that have not been sent, and
// hands the machine the newest values that the client lacks. If the previous Flush could not
// send everything, the most urgent go first.
func (c *Conn) sendState(now time.Time) {
	s := &c.shown.state
	if !s.pending() || !c.usable() {
		return
	}
	c.answerResync(now)

	clock := c.link.LockNow() // not the game's clock, which may jump
	defer c.link.Unlock()
	c.world.frame.cork(c)

	unsent := c.machine.TrackedQueued() // bytes of earlier Flushes that TakeBack takes back
	c.machine.TakeBack()
	c.settleStates()
	behind := unsent > 0 || s.heldBack
	bulk, waits := c.link.Source().Bulk()
	s.room.path.Among(c.world.crowdAt(clock))
	s.room.path.Lost(c.machine.Lost(), c.machine.Acked())
	s.room.path.Beside(bulk, waits && unsent > 0)
	room := s.room.open(clock, c.machine, unsent, behind)
	if behind {
		s.sort(now)
	}
	s.room.given = c.compose(now, room)
	s.room.path.Sent(s.room.given)
}

// answerResync marks everything as lacking if the client has requested it. It
// answers at most one request in resyncPeriod.
func (c *Conn) answerResync(now time.Time) {
	s := &c.shown.state
	if !s.resync {
		return
	}
	since := now.Sub(s.resyncAt)
	if since < 0 || since >= s.resyncPause { // the game's clock may go back
		s.resync = false
		s.resyncAt = now
		s.resyncPause = max(resyncPeriod, time.Duration(c.markAll())*resyncEach)
	}
}

// sort sorts dirty by urgency, most urgent first.
func (s *stateOutbox) sort(now time.Time) {
	for _, o := range s.dirty {
		o.claim = o.urgency(now)
	}
	slices.SortStableFunc(s.dirty, func(a, b *opening) int { return cmp.Compare(b.claim, a.claim) })
}

// settleStates takes the fates of updates from the machine: whether they arrived, were lost
// or were taken back. The caller holds the link's lock.
//
// If an update was lost or taken back, the newest values of its fields are sent again. Its
// calls are sent again only if it was taken back, because a call is sent at most once.
func (c *Conn) settleStates() {
	s := &c.shown.state
	for n := c.machine.Fates(s.fates[:]); n > 0; n = c.machine.Fates(s.fates[:]) {
		for _, f := range s.fates[:n] {
			sent := &s.sent.records[f.Record]
			sent.settle()
			if !f.Kept && !sent.to.closed {
				sent.to.undoUpdate(sent)
			}
			if f.Back {
				sent.to.requeue(sent.calls)
			}
			s.sent.release(f.Record)
		}
	}
}

// compose hands updates to the machine while there is room, and returns their size in bytes.
// The caller holds the link's lock.
func (c *Conn) compose(now time.Time, room int) (used int) {
	s := &c.shown.state
	kept := s.dirty[:0]
	s.heldBack = false
	updates := 0
	for i, o := range s.dirty {
		s.heldBack = used >= room || updates >= maxUpdates
		if s.heldBack {
			kept = append(kept, s.dirty[i:]...)
			break
		}
		for used < room && !o.closed && o.lacks != 0 {
			n := c.update(o, now)
			if n == 0 {
				break
			}
			used += n
			updates++
		}
		for used < room && o.callsDue(now) && c.machine.Opened(o.channel) {
			n := c.sendQueued(o, now)
			if n == 0 {
				break
			}
			used += n
			updates++
		}
		o.enqueued = !o.closed && (o.lacks != 0 || !o.queuedCalls.Empty())
		if o.enqueued {
			kept = append(kept, o)
			s.heldBack = o.lacks != 0 && used >= room
		}
	}
	clear(s.dirty[len(kept):])
	s.dirty = kept
	return used
}

// update hands over what the client of o lacks, up to what fits into
// one message, and returns the number of bytes.
func (c *Conn) update(o *opening, now time.Time) int {
	if !c.machine.Opened(o.channel) {
		return c.updateEarly(o, now)
	}
	record, sent := c.shown.state.sent.record(o, now)
	lists := o.actor.class.lists
	b := c.world.replicator.fields[:0]
	if fields := o.lacks &^ lists; fields != 0 {
		sent.fields = o.actor.states.fitting(fields, c.maxUpdate())
		b = o.actor.appendFields(b, sent.fields)
		o.lacks &^= sent.fields
	} else {
		b = o.appendList(b, sent)
	}
	sent.list = sent.fields&lists != 0
	if sent.list {
		o.listsInFlight++
	}
	o.everSent |= sent.fields
	o.since = now
	return c.sendUpdate(record, b)
}

// updateEarly hands over what changed since the open was sent, before
// the client has acknowledged the open. Without it, a new actor would
// not move for a round trip. Unreal likewise sends properties before OpenAcked.
//
// The client may drop the update. The fields therefore stay in lacks,
// and are sent again after the acknowledgement.
func (c *Conn) updateEarly(o *opening, now time.Time) int {
	if !c.machine.Opening(o.channel) {
		return 0
	}
	fields := o.actor.states.fitting(o.fresh&o.lacks&^o.actor.class.lists, c.maxUpdate())
	if fields == 0 {
		return 0
	}
	record, _ := c.shown.state.sent.record(o, now)
	o.fresh &^= fields
	o.since = now
	return c.sendUpdate(record, o.actor.appendFields(c.world.replicator.fields[:0], fields))
}

// sendQueued hands over calls that wait for the states of o, up to what fits into one
// message, and returns the number of bytes.
func (c *Conn) sendQueued(o *opening, now time.Time) int {
	record, sent := c.shown.state.sent.record(o, now)
	sent.calls = o.queuedCalls.Cut(sent.calls, c.maxUpdate())
	b := state.AppendMask(c.world.replicator.fields[:0], 0, o.actor.class.fields)
	return c.sendUpdate(record, append(b, sent.calls...))
}

// sendUpdate hands the recorded update b to the machine, and returns its size in bytes. If
// the machine does not accept the update, sendUpdate releases the record and returns 0.
func (c *Conn) sendUpdate(record uint64, b []byte) int {
	c.world.replicator.fields = b // the next update reuses its memory
	sent := &c.shown.state.sent.records[record]
	o := sent.to
	err := c.machine.SendTracked(o.channel, record, b)
	switch {
	case err == nil:
		return updateHeader + len(b)
	case sent.fields == 0: // fields of an early update are still in lacks; calls end with the channel
	case errors.Is(err, bunch.ErrBunchTooLarge):
		c.world.stateFailed(o.actor, o.actor.class.stateOf(bits.TrailingZeros64(uint64(sent.fields))), err)
	default: // the connection has ended, or the channel is about to close
		o.undoUpdate(sent)
	}
	sent.settle()
	c.shown.state.sent.release(record)
	return 0
}

// maxUpdate returns the maximum number of bytes that fields may take in one message to the
// client, in addition to their mask.
func (c *Conn) maxUpdate() int { return min(bunch.EntryBytes, c.maxBunch) - updateReserve }

// markAll marks everything that the client may see as lacking, because the client could not
// keep what it acknowledged. It also opens dormant actors that have lists. It returns the
// number of open and opened actors.
func (c *Conn) markAll() (marked int) {
	for _, channel := range slices.Sorted(maps.Keys(c.channels)) {
		a := c.channels[channel]
		if o := a.openingOn(c); o != nil {
			a.compareAll() // encode items that are not due yet
			o.markLists(true)
			o.mark(o.visible)
		}
	}
	marked = len(c.channels)
	for _, a := range c.dormantWithLists() {
		marked++
		if err := a.open(c); err != nil {
			a.notOpened(c, err)
		}
	}
	return marked
}

// dormantWithLists returns the dormant actors that have lists and of which the client
// has a copy. Actors without lists lose nothing, because the close that made them
// dormant carried their other states reliably.
func (c *Conn) dormantWithLists() (actors []*Actor) {
	for a := range c.shown.detached {
		if a.class.lists != 0 && c.shown.detached[a] == Dormancy {
			actors = append(actors, a)
		}
	}
	slices.SortFunc(actors, func(a, b *Actor) int { return cmp.Compare(a.ref, b.ref) })
	return actors
}
