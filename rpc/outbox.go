package rpc

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/outbox"
	"github.com/quivernet/quiver/internal/state"
)

// A stateOutbox holds the states that a server's connection still has to send to its client, and
// the updates (messages with states) that are in flight. An update is in flight from when it's
// handed to the machine, the protocol state machine that packs messages into packets, until its
// fate is known: the client acknowledged it, or it was lost or taken back.
//
// A stateOutbox is used only by the world's goroutine.
type stateOutbox struct {
	dirty  []*opening  // openings that may have something to send; compose removes finished ones
	behind bool        // states had to wait for the next Flush; see compose and sendState
	budget stateBudget // how many bytes a Flush may send
	sent   sentUpdates // updates in flight

	fates [64]bunch.Fate // reused by settleStates

	// The client asks for a resync if it had no memory for states that it acknowledged. We answer
	// by sending everything again.
	resync      bool          // the client has asked, and we haven't answered yet
	resyncAt    time.Time     // when we last answered, by the game's clock
	resyncPause time.Duration // minimum time from resyncAt until the next answer
}

// pending reports whether the next Flush has work to do, because there's something to send or
// updates are in flight.
func (s *stateOutbox) pending() bool {
	return s.resync || len(s.dirty) > 0 || s.sent.any()
}

// A sentUpdate is an update in flight.
type sentUpdate struct {
	to *opening
	at time.Time // when the update was handed over

	// The contents of the update, which may have to be sent again: fields, items of a list, or
	// calls.
	fields state.Mask // 0 for an early update, or for an update with calls
	list   bool       // fields is a list
	items  []uint32   // the numbers of the items, if list is set
	calls  []byte     // of ForceQueue methods

	since time.Time // opening.since before this update; see opening.undoUpdate
}

// endFlight is called once the fate of the update is known.
func (s *sentUpdate) endFlight() {
	// We could ask the class whether this is a list, but that would cost a cache miss for most
	// updates.
	if s.list {
		s.to.listsInFlight--
	}
}

// sentUpdates are the updates in flight. The machine knows each by its record, which is its index
// in updates.
type sentUpdates struct {
	updates []sentUpdate
	free    []uint64 // unused records
}

// any reports whether there are updates in flight.
func (s *sentUpdates) any() bool { return len(s.free) < len(s.updates) }

// add adds an update of o that is about to be handed over, and returns it with its record. add
// copies o.since, so the caller may change o.since afterwards.
func (s *sentUpdates) add(o *opening, now time.Time) (record uint64, sent *sentUpdate) {
	if n := len(s.free); n > 0 {
		record = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		record = uint64(len(s.updates))
		s.updates = append(s.updates, sentUpdate{})
	}
	sent = &s.updates[record]
	sent.to = o
	sent.at = now
	sent.since = o.since
	return record, sent
}

// release removes an update, so that its record can be used for another one.
func (s *sentUpdates) release(record uint64) {
	sent := &s.updates[record]
	*sent = sentUpdate{items: sent.items[:0], calls: sent.calls[:0]} // keep their memory
	s.free = append(s.free, record)
}

// undoInFlight treats all updates in flight to an opening as lost.
func (s *stateOutbox) undoInFlight(o *opening) {
	for i := range s.sent.updates {
		if sent := &s.sent.updates[i]; sent.to == o {
			o.undoUpdate(sent)
		}
	}
}

// A stateBudget decides how many bytes of updates a Flush may hand to the machine.
//
// Updates that wait in the machine get stale, so the budget is limited to the bytes that the
// machine will probably send by the next Flush. Since a queue on the path also delays calls, the
// budget is limited further to keep that queue short.
type stateBudget struct {
	room     outbox.Room // estimates the bytes that the machine sends between two Flushes
	pace     state.Pace  // limits the rate, depending on the queue on the path
	began    time.Time   // first Flush, by the link's clock; the times in pace count from here
	lastUsed int         // bytes that the last Flush handed over
}

// observe gives the pace its measurements of the path. It must be called before next.
//
// crowd summarizes the world's connections. bulk is the number of bytes of bulk sent since the last
// call, and bulkWaits reports whether more bulk is waiting behind unsent updates.
func (s *stateBudget) observe(machine *bunch.Conn, crowd state.Crowd, bulk int, bulkWaits bool) {
	s.pace.SetCrowd(crowd)
	s.pace.NoteLoss(machine.Lost(), machine.Acked())
	s.pace.NoteBulk(bulk, bulkWaits)
}

// use records that this Flush handed over n bytes.
func (s *stateBudget) use(n int) {
	s.lastUsed = n
	s.pace.Sent(n)
}

// next returns the budget for this Flush, in bytes.
//
// unsent is the number of bytes from the last Flush that the machine gave back unsent. behind
// reports whether states had to wait, either in the machine or for lack of budget.
func (s *stateBudget) next(clock time.Time, machine *bunch.Conn, unsent int, behind bool) int {
	if s.began.IsZero() {
		s.began = clock
	}
	s.room.Adapt(unsent)
	elapsed := clock.Sub(s.began)
	recent, least, rounds := machine.RecentRTT()
	s.pace.Look(elapsed, state.Sample{
		RecentRTT: recent,
		MinRTT:    least,
		Rounds:    rounds,
		Sent:      s.lastUsed - unsent,
		More:      behind,
	})
	s.pace.Sent(-unsent)
	return s.pace.Room(elapsed, s.room.Bytes())
}

// A stateCrowd summarizes how fast all connections of a world are sending states.
type stateCrowd struct {
	state.Crowd
	at  time.Time       // when the summary was made, by the link's clock
	met map[string]bool // identities that are already part of it; kept for its memory
}

// sum returns a summary of the paces of all connections, which may be up to maxCrowdAge old.
//
// Only one connection counts for each identity: the first in conns that has sent states, which is
// the oldest because conns are in the order in which they joined. Otherwise a client could open
// several, pretend that a queue delays and drops their packets, and so slow down everybody else.
func (s *stateCrowd) sum(clock time.Time, conns []*Conn) state.Crowd {
	if clock.Sub(s.at) < maxCrowdAge {
		return s.Crowd
	}
	if s.met == nil {
		s.met = make(map[string]bool)
	}
	clear(s.met)
	s.Crowd = state.Crowd{}
	s.at = clock
	for _, c := range conns {
		budget := &c.shown.state.budget
		if budget.began.IsZero() || s.met[c.identity] {
			continue
		}
		s.met[c.identity] = c.identity != ""
		s.Add(&budget.pace, clock.Sub(budget.began))
	}
	return s.Crowd
}

const (
	// maxCrowdAge is the time for which we use a summary of the connections' paces. It's shorter
	// than a round of state.Pace, so that each round sees a recent summary, and long enough that
	// the cost of making one doesn't matter, which is a few tens of microseconds for 1,024
	// connections.
	maxCrowdAge = 100 * time.Millisecond

	// maxUpdatesPerFlush is the number of updates after which a Flush starts no other opening on
	// the same connection. The machine holds 256 KiB, and counts 64 bytes for each update in
	// addition to its content. This number of updates therefore fits even with the largest
	// outbox.Room of 96 KiB, and leaves space for 500 more.
	//
	// It needn't be checked within an opening, because a single one makes no more than about 300.
	// Any two successive updates of its fields, of one list or of its calls have more than a
	// datagram's worth of content together, so the Room allows fewer than 200, and there is one
	// more for each list, of which a class has at most 64. Updates that don't fit are handled as if
	// they were lost.
	maxUpdatesPerFlush = 2000

	// resyncPeriod is the minimum time between two answers to a client that asks for everything
	// again. After an answer with more than a thousand actors, the minimum is resyncPerActor times
	// their number instead.
	//
	// A client can ask with a single byte, but the answer can be expensive. Opening 5,000 dormant
	// actors with lists and making them dormant again takes 30 ms.
	resyncPeriod   = time.Second
	resyncPerActor = time.Millisecond

	// updateHeader is the approximate number of bytes that a bunch adds to an update: flags,
	// channel and length. It needn't be exact, because it is only used to charge updates to the
	// budget.
	updateHeader = 6

	// updateReserve is the space that maxUpdateBytes leaves for the mask, which takes up to 9
	// bytes.
	updateReserve = 16
)

// sendState is called at each Flush to send states. It takes back the updates that the machine
// hasn't sent yet, because there may be newer values now. If states had to wait, the most urgent
// openings go first.
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
	s.behind = s.behind || unsent > 0

	bulk, waits := c.link.Source().TakeBulk()
	crowd := c.world.crowd.sum(clock, c.world.announced)
	s.budget.observe(c.machine, crowd, bulk, waits && unsent > 0)
	budget := s.budget.next(clock, c.machine, unsent, s.behind)
	if s.behind {
		s.sort(now)
	}
	s.budget.use(c.compose(now, budget))
}

// answerResync marks everything as lacking if the client has asked for a resync and the last answer
// was long enough ago.
func (c *Conn) answerResync(now time.Time) {
	s := &c.shown.state
	if !s.resync {
		return
	}
	elapsed := now.Sub(s.resyncAt)
	if elapsed < 0 || elapsed >= s.resyncPause { // the game's clock may go back
		s.resync = false
		s.resyncAt = now
		s.resyncPause = max(resyncPeriod, time.Duration(c.markAll())*resyncPerActor)
	}
}

// sort puts the most urgent openings first.
func (s *stateOutbox) sort(now time.Time) {
	for _, o := range s.dirty {
		o.sortKey = o.urgency(now)
	}
	slices.SortStableFunc(s.dirty, func(a, b *opening) int { return cmp.Compare(b.sortKey, a.sortKey) })
}

// settleStates handles the updates whose fate the machine has learned since the last call. The
// caller must hold the link's lock.
func (c *Conn) settleStates() {
	s := &c.shown.state
	for n := c.machine.Fates(s.fates[:]); n > 0; n = c.machine.Fates(s.fates[:]) {
		for _, f := range s.fates[:n] {
			sent := &s.sent.updates[f.Record]
			sent.endFlight()
			if !f.Kept && !sent.to.closed {
				// The update was lost or taken back. The next one will have the newest values of
				// its fields.
				sent.to.undoUpdate(sent)
			}
			if f.Back {
				// Calls are sent at most once, so lost calls must not be sent again. These calls
				// were never sent, however.
				sent.to.requeue(sent.calls)
			}
			s.sent.release(f.Record)
		}
	}
}

// compose hands updates to the machine until it has used up the budget, and returns their total
// size in bytes. The last update may exceed the budget. The caller must hold the link's lock.
//
// compose sets behind if it stopped before some openings, or if the last one still lacks states.
// Calls that this last opening has left don't count.
func (c *Conn) compose(now time.Time, budget int) (used int) {
	s := &c.shown.state
	kept := s.dirty[:0] // openings that stay in dirty
	s.behind = false
	updates := 0
	for i, o := range s.dirty {
		s.behind = used >= budget || updates >= maxUpdatesPerFlush
		if s.behind {
			kept = append(kept, s.dirty[i:]...)
			break
		}
		for used < budget && !o.closed && o.lacks != 0 {
			n := c.update(o, now)
			if n == 0 {
				break
			}
			used += n
			updates++
		}
		for used < budget && o.claimCallSlot(now) && c.machine.Opened(o.channel) {
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
			s.behind = o.lacks != 0 && used >= budget
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
	record, sent := c.shown.state.sent.add(o, now)
	lists := o.actor.class.lists
	b := c.world.replicator.fields[:0]
	if fields := o.lacks &^ lists; fields != 0 {
		sent.fields = o.actor.states.fitting(fields, c.maxUpdateBytes())
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
// for a round trip. Unreal Engine doesn't wait for OpenAcked before it sends properties either.
func (c *Conn) updateEarly(o *opening, now time.Time) int {
	if !c.machine.Opening(o.channel) {
		return 0
	}
	fields := o.actor.states.fitting(o.fresh&o.lacks&^o.actor.class.lists, c.maxUpdateBytes())
	if fields == 0 {
		return 0
	}
	// The client may drop this update, so leave the fields in lacks. They are sent again once the
	// open is acknowledged.
	record, _ := c.shown.state.sent.add(o, now)
	o.fresh &^= fields
	o.since = now
	return c.sendUpdate(record, o.actor.appendFields(c.world.replicator.fields[:0], fields))
}

// sendQueued hands over an update with as many of o's queued calls as fit into one message, and
// returns its size in bytes.
func (c *Conn) sendQueued(o *opening, now time.Time) int {
	record, sent := c.shown.state.sent.add(o, now)
	sent.calls = o.queuedCalls.Cut(sent.calls, c.maxUpdateBytes())
	b := state.AppendMask(c.world.replicator.fields[:0], 0, o.actor.class.fields)
	return c.sendUpdate(record, append(b, sent.calls...))
}

// sendUpdate hands the update with this record to the machine, encoded as b, and returns its size
// in bytes. If the machine doesn't accept the update, sendUpdate releases it and returns 0.
func (c *Conn) sendUpdate(record uint64, b []byte) int {
	c.world.replicator.fields = b // keep its memory for the next update
	sent := &c.shown.state.sent.updates[record]
	o := sent.to
	err := c.machine.SendTracked(o.channel, record, b)
	switch {
	case err == nil:
		return updateHeader + len(b)
	case sent.fields == 0:
		// There's nothing to undo: the fields of an early update are still in lacks, and calls are
		// dropped along with their channel.
	case errors.Is(err, bunch.ErrBunchTooLarge):
		// It won't fit next time either, so don't try again.
		c.world.stateFailed(o.actor, o.actor.class.stateOf(bits.TrailingZeros64(uint64(sent.fields))), err)
	default:
		// The connection has ended, or the channel is about to close.
		o.undoUpdate(sent)
	}
	sent.endFlight()
	c.shown.state.sent.release(record)
	return 0
}

// maxUpdateBytes returns the maximum size of the fields in an update to the client, excluding their
// mask.
func (c *Conn) maxUpdateBytes() int { return min(bunch.EntryBytes, c.terms.maxBunch) - updateReserve }

// maxQueuedCall returns the maximum size of a call of a ForceQueue method, which travels in an
// update with its length.
func maxQueuedCall(maxBunch int) int {
	return min(bunch.EntryBytes, maxBunch) - updateReserve - binary.MaxVarintLen16
}

// markAll marks everything that the client may see as lacking, since the client wasn't able to
// keep the states that it acknowledged. It also opens dormant actors that have lists. It returns
// the number of actors that it went through, which says how much the answer may cost.
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
// actors without lists have lost nothing, because the reliable close that made them dormant carried
// all of their states.
func (c *Conn) dormantWithLists() (actors []*Actor) {
	for a := range c.shown.detached {
		if a.class.lists != 0 && c.shown.detached[a] == Dormancy {
			actors = append(actors, a)
		}
	}
	slices.SortFunc(actors, byRef)
	return actors
}
