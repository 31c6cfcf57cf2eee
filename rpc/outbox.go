package rpc

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/outbox"
	"github.com/quivernet/quiver/internal/state"
)

// A stateOutbox holds the states that a server's connection still has to send to its client, and
// the updates (messages with states) that are in flight.
//
// A stateOutbox is used only by the world's goroutine.
type stateOutbox struct {
	dirty   []*opening // openings that may have something to send; compose removes finished ones
	backlog bool       // the last Flush had no room for all updates
	room    stateRoom  // how many bytes a Flush may send
	sent    sentStates // updates in flight

	fates [64]bunch.Fate // reused by settleStates

	// The client asks for a resync if it had no memory for states that it acknowledged. It then
	// gets everything again.
	resync      bool          // the client has asked, and we haven't answered yet
	resyncAt    time.Time     // when we last answered, by the game's clock
	resyncPause time.Duration // minimum time from resyncAt until the next answer
}

// pending reports whether the next Flush has work to do: there's something to send, or there
// are updates in flight.
func (s *stateOutbox) pending() bool {
	return s.resync || len(s.dirty) > 0 || s.sent.any()
}

// A sentState is an update that was handed to the machine, until its fate is known. It may arrive
// or get lost, or we may take it back before it is sent.
type sentState struct {
	to *opening
	at time.Time // when the update was handed over

	// The contents of the update, which may have to be sent again: fields, items of a list, or
	// calls.
	fields state.Mask // 0 for an early update, or for an update with calls
	list   bool       // fields is a list
	items  []uint32   // the numbers of the items, if list is set
	calls  []byte     // of ForceQueue methods

	since time.Time // opening.since before this update, restored if the update is taken back
}

// noteFate is called once the fate of an update is known.
func (s *sentState) noteFate() {
	// The class also knows whether this is a list, but it is in memory that most updates don't
	// touch otherwise.
	if s.list {
		s.to.listsInFlight--
	}
}

// sentStates are the updates in flight. The machine knows an update by its index in records.
type sentStates struct {
	records []sentState
	free    []uint64 // numbers of unused records
}

// any reports whether there are updates in flight.
func (s *sentStates) any() bool { return len(s.free) < len(s.records) }

// record returns a record for an update of o that is about to be handed over. The record contains
// a copy of o.since, so the caller may change o.since afterwards.
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

// release makes a record available for the next update.
func (s *sentStates) release(number uint64) {
	sent := &s.records[number]
	*sent = sentState{items: sent.items[:0], calls: sent.calls[:0]} // keep their memory
	s.free = append(s.free, number)
}

// undoInFlight treats all updates in flight to an opening as lost.
func (s *stateOutbox) undoInFlight(o *opening) {
	for i := range s.sent.records {
		if sent := &s.sent.records[i]; sent.to == o {
			o.undoUpdate(sent)
		}
	}
}

// A stateRoom decides how many bytes of updates a Flush may hand to the machine.
//
// Updates that wait in the machine get stale, so the room is limited to the bytes that the
// machine will probably send by the next Flush. Since a queue on the path also delays calls, the
// room is limited further to keep that queue short.
type stateRoom struct {
	machine  outbox.Room // estimates the bytes that the machine sends between two Flushes
	path     state.Pace  // limits the rate, depending on the queue on the path
	began    time.Time   // first Flush, by the link's clock; the times in path count from here
	lastUsed int         // bytes that the last Flush has handed over
}

// observe gives the pace its measurements of the path. It must be called before next.
//
// crowd summarizes the world's connections. bulk is the number of bytes of bulk sent since the last
// call, and bulkWaits reports whether more bulk is waiting behind unsent updates.
func (s *stateRoom) observe(machine *bunch.Conn, crowd state.Crowd, bulk int, bulkWaits bool) {
	s.path.SetCrowd(crowd)
	s.path.NoteLoss(machine.Lost(), machine.Acked())
	s.path.NoteBulk(bulk, bulkWaits)
}

// use records that a Flush has handed over n bytes.
func (s *stateRoom) use(n int) {
	s.lastUsed = n
	s.path.Sent(n)
}

// next returns the room for this Flush, in bytes.
//
// unsent is the number of bytes of the last Flush's updates that the machine gave back unsent.
// behind is set if unsent is above 0, or if that Flush didn't have room for all updates.
func (s *stateRoom) next(clock time.Time, machine *bunch.Conn, unsent int, behind bool) int {
	if s.began.IsZero() {
		s.began = clock
	}
	s.machine.Adapt(unsent)
	since := clock.Sub(s.began)
	recent, least, rounds := machine.RecentRTT()
	s.path.Look(since, state.Sample{
		RecentRTT: recent,
		MinRTT:    least,
		Rounds:    rounds,
		Sent:      s.lastUsed - unsent,
		More:      behind,
	})
	s.path.Sent(-unsent)
	return s.path.Room(since, s.machine.Bytes())
}

// A stateCrowd summarizes how fast all connections of a world are sending states.
type stateCrowd struct {
	state.Crowd
	at  time.Time       // time of the count, by the link's clock
	met map[string]bool // identities that this count has met
}

// sum returns a summary of the paces of all connections, which may be up to crowdPeriod old.
//
// Only the oldest connection of an identity counts. Otherwise a client could open several, pretend
// that a queue delays and drops their packets, and so slow down everybody else.
func (s *stateCrowd) sum(clock time.Time, conns []*Conn) state.Crowd {
	if clock.Sub(s.at) < crowdPeriod {
		return s.Crowd
	}
	if s.met == nil {
		s.met = make(map[string]bool)
	}
	clear(s.met)
	s.Crowd = state.Crowd{}
	s.at = clock
	for _, c := range conns {
		room := &c.shown.state.room
		if room.began.IsZero() || s.met[c.identity] {
			continue
		}
		s.met[c.identity] = c.identity != ""
		s.Add(&room.path, clock.Sub(room.began))
	}
	return s.Crowd
}

const (
	// crowdPeriod is the time for which we use a summary of the connections' paces. It's shorter
	// than a round of state.Pace, so each round sees a recent summary, and long enough that its
	// cost doesn't matter: going through 1,024 connections takes a few tens of microseconds.
	crowdPeriod = 100 * time.Millisecond

	// maxUpdates is the maximum number of updates that a Flush may hand to the machine for one
	// connection. The machine holds 256 KiB, and counts 64 bytes for each update in addition to
	// its content, so this number fits even with the largest outbox.Room.
	maxUpdates = 2000

	// resyncPeriod is the minimum time between two answers to a client that asks for everything
	// again. If there were more than a thousand actors in the last answer, the minimum is
	// resyncEach for each of them instead.
	//
	// A client can ask with a single byte, but the answer can be expensive. Opening 5,000 dormant
	// actors with lists and making them dormant again takes 30 ms.
	resyncPeriod = time.Second
	resyncEach   = time.Millisecond

	// updateHeader is the approximate number of bytes that a bunch adds to an update: flags,
	// channel and length. It needn't be exact, because it is only used to charge updates to the
	// room.
	updateHeader = 6

	// updateReserve is the space that an update leaves for its mask, which takes up to 9 bytes.
	updateReserve = 16
)

// sendState is called at each Flush to send states. It takes back updates that the machine has
// not sent yet, because there may be newer values by now. If there isn't room for everything, the
// most urgent openings go first.
func (c *Conn) sendState(now time.Time) {
	s := &c.shown.state
	if !s.pending() || !c.usable() {
		return
	}
	c.answerResync(now)

	clock := c.link.LockNow() // not the game's clock, which may jump
	defer c.link.Unlock()
	c.world.frame.cork(c)

	unsent := c.machine.TrackedQueued() // bytes that the following TakeBack takes back
	c.machine.TakeBack()
	c.settleStates()
	behind := unsent > 0 || s.backlog

	bulk, waits := c.link.Source().TakeBulk()
	s.room.observe(c.machine, c.world.crowd.sum(clock, c.world.announced), bulk, waits && unsent > 0)
	room := s.room.next(clock, c.machine, unsent, behind)
	if behind {
		s.sort(now)
	}
	s.room.use(c.compose(now, room))
}

// answerResync marks everything as lacking if the client has asked for a resync and the last answer
// was long enough ago.
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

// sort puts the most urgent openings first.
func (s *stateOutbox) sort(now time.Time) {
	for _, o := range s.dirty {
		o.claim = o.urgency(now)
	}
	slices.SortStableFunc(s.dirty, func(a, b *opening) int { return cmp.Compare(b.claim, a.claim) })
}

// settleStates handles the updates whose fate the machine has learned since the last call. The
// caller holds the link's lock.
func (c *Conn) settleStates() {
	s := &c.shown.state
	for n := c.machine.Fates(s.fates[:]); n > 0; n = c.machine.Fates(s.fates[:]) {
		for _, f := range s.fates[:n] {
			sent := &s.sent.records[f.Record]
			sent.noteFate()
			if !f.Kept && !sent.to.closed {
				// The update was lost or taken back. The next update will have the newest values
				// of its fields.
				sent.to.undoUpdate(sent)
			}
			if f.Back {
				// Calls are sent at most once, so lost calls must not be sent again. But these
				// calls were never sent.
				sent.to.requeue(sent.calls)
			}
			s.sent.release(f.Record)
		}
	}
}

// compose hands updates to the machine for as long as there is room, and returns their total size
// in bytes. The caller holds the link's lock.
func (c *Conn) compose(now time.Time, room int) (used int) {
	s := &c.shown.state
	kept := s.dirty[:0] // openings that stay in dirty
	s.backlog = false
	updates := 0
	for i, o := range s.dirty {
		s.backlog = used >= room || updates >= maxUpdates
		if s.backlog {
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
		for used < room && o.claimCallSlot(now) && c.machine.Opened(o.channel) {
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
			s.backlog = o.lacks != 0 && used >= room
		}
	}
	clear(s.dirty[len(kept):])
	s.dirty = kept
	return used
}

// update hands over an update with as many of the lacking fields or items as fit into one
// message. It returns the update's size in bytes, or 0 if nothing could be sent.
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
		// Only lists are left. A list needs an update of its own.
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

// updateEarly hands over an update before the client has acknowledged the open, with the fields
// that have changed since the open was sent. Without early updates, a new actor would stand still
// for a round trip. Unreal doesn't wait for OpenAcked before it sends properties either.
func (c *Conn) updateEarly(o *opening, now time.Time) int {
	if !c.machine.Opening(o.channel) {
		return 0
	}
	fields := o.actor.states.fitting(o.fresh&o.lacks&^o.actor.class.lists, c.maxUpdate())
	if fields == 0 {
		return 0
	}
	// The client may drop this update, so leave the fields in lacks. They are sent again once the
	// open is acknowledged.
	record, _ := c.shown.state.sent.record(o, now)
	o.fresh &^= fields
	o.since = now
	return c.sendUpdate(record, o.actor.appendFields(c.world.replicator.fields[:0], fields))
}

// sendQueued hands over an update with as many of o's queued calls as fit into one message, and
// returns its size in bytes.
func (c *Conn) sendQueued(o *opening, now time.Time) int {
	record, sent := c.shown.state.sent.record(o, now)
	sent.calls = o.queuedCalls.Cut(sent.calls, c.maxUpdate())
	b := state.AppendMask(c.world.replicator.fields[:0], 0, o.actor.class.fields)
	return c.sendUpdate(record, append(b, sent.calls...))
}

// sendUpdate hands b, the recorded update, to the machine and returns its size in bytes. If the
// machine doesn't accept it, sendUpdate releases the record and returns 0.
func (c *Conn) sendUpdate(record uint64, b []byte) int {
	c.world.replicator.fields = b // keep its memory for the next update
	sent := &c.shown.state.sent.records[record]
	o := sent.to
	err := c.machine.SendTracked(o.channel, record, b)
	switch {
	case err == nil:
		return updateHeader + len(b)
	case sent.fields == 0:
		// The fields of an early update are still in lacks, and calls are dropped along with
		// their channel.
	case errors.Is(err, bunch.ErrBunchTooLarge):
		// It won't fit next time either, so don't try again.
		c.world.stateFailed(o.actor, o.actor.class.stateOf(bits.TrailingZeros64(uint64(sent.fields))), err)
	default:
		// The connection has ended, or the channel is about to close.
		o.undoUpdate(sent)
	}
	sent.noteFate()
	c.shown.state.sent.release(record)
	return 0
}

// maxUpdate returns the maximum size of the fields in one message to the client, excluding their
// mask.
func (c *Conn) maxUpdate() int { return min(bunch.EntryBytes, c.terms.maxBunch) - updateReserve }

// markAll marks everything that the client may see as lacking, since the client wasn't able to
// keep the states that it acknowledged. It also opens dormant actors that have lists. It returns
// the number of actors affected.
func (c *Conn) markAll() (marked int) {
	for _, channel := range c.channels.sorted() {
		a := c.channels.byNumber[channel]
		if o := a.openingOn(c); o != nil {
			a.compareAll() // pick up items that aren't due to be compared yet
			o.markLists(true)
			o.mark(o.visible)
		}
	}
	marked = len(c.channels.byNumber)
	for _, a := range c.dormantWithLists() {
		marked++
		if err := a.open(c); err != nil {
			a.logNotOpened(c, err)
		}
	}
	return marked
}

// dormantWithLists returns the dormant actors that have lists and a copy at the client. Dormant
// actors without lists have lost nothing, because the close that made them dormant carried all of
// their states, reliably.
func (c *Conn) dormantWithLists() (actors []*Actor) {
	for a := range c.shown.detached {
		if a.class.lists != 0 && c.shown.detached[a] == Dormancy {
			actors = append(actors, a)
		}
	}
	slices.SortFunc(actors, func(a, b *Actor) int { return cmp.Compare(a.ref, b.ref) })
	return actors
}
