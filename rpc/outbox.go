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

// stateOutbox holds the states that a server's connection has yet to send to its client, and the updates on their way. It belongs to the
// world's goroutine.
type stateOutbox struct {
	dirty    []*opening     // openings whose client lacks something; compose removes those whose client lacks nothing any more
	heldBack bool           // the last Flush had no room for all
	room     stateRoom      // how many bytes a Flush may hand over
	sent     sentStates     // updates on their way
	fates    [64]bunch.Fate // scratch, for settleStates

	resync      bool          // the client could not keep what it acknowledged, and asks for everything anew
	resyncAt    time.Time     // by the game's clock, when the last such request was answered
	resyncPause time.Duration // how long after that the next one waits
}

// pending reports whether states wait, or the fate of an update is not known: then the next Flush has work.
func (s *stateOutbox) pending() bool {
	return s.resync || len(s.dirty) > 0 || s.sent.any()
}

// sentState is an update that was handed to the machine.
type sentState struct {
	to     *opening
	fields state.Mask // that go again when it is lost; none when it is early, or holds calls
	list   bool       // fields is a list
	items  []uint32   // then the numbers of the items
	calls  []byte     // calls of ForceQueue methods; then there are no fields
	at     time.Time  // when it was handed over
	since  time.Time  // opening.since before that
}

// settle notes that an update is no longer on its way.
func (s *sentState) settle() {
	if s.list { // not asked of the class: memory that most updates need not touch
		s.to.items--
	}
}

// sentStates are the updates whose fate is not known. The machine knows each by the number of its record.
type sentStates struct {
	records []sentState
	free    []uint64 // numbers of the records that are unused
}

func (s *sentStates) any() bool { return len(s.free) < len(s.records) }

// record takes an unused record for an update of o. It notes o.since, which the caller may then change.
func (s *sentStates) record(o *opening, now time.Time) (number uint64, sent *sentState) {
	if n := len(s.free); n > 0 {
		number, s.free = s.free[n-1], s.free[:n-1]
	} else {
		number = uint64(len(s.records))
		s.records = append(s.records, sentState{})
	}
	sent = &s.records[number]
	sent.to, sent.at, sent.since = o, now, o.since
	return number, sent
}

// release makes a record unused. The memory of its items and calls serves the next update.
func (s *sentStates) release(number uint64) {
	sent := &s.records[number]
	*sent = sentState{items: sent.items[:0], calls: sent.calls[:0]}
	s.free = append(s.free, number)
}

// stateRoom decides how many bytes of updates a Flush hands to the machine: about what leaves it until the next Flush, and no more than
// keeps the queue of the path short.
type stateRoom struct {
	machine outbox.Room // by how much leaves the machine between two Flushes
	path    state.Pace  // by the queue of the path
	began   time.Time   // when the first Flush was, by the link's clock; path counts from then
	given   int         // bytes that the last Flush handed over
}

// open returns the room of this Flush. Of what the last one handed over, unsent bytes were taken back; behind says that these were some,
// or that there was no room for all.
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

// stateCrowd is the crowd of the paces of all connections of a world.
type stateCrowd struct {
	state.Crowd
	at time.Time // when they were counted, by the link's clock
}

// crowdAt returns the counts of the paces of all connections, which are at most crowdPeriod old.
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
	// crowdPeriod is shorter than the rounds of a pace; counting 1,024 connections takes some microseconds.
	crowdPeriod = 100 * time.Millisecond
	// maxUpdates is how many updates leave at a Flush. The machine holds 256 KiB and counts 64 bytes for each beside its own, so it
	// takes them and the largest outbox.Room.
	maxUpdates = 2000
	// resyncPeriod is the least time between two answers to a client that asks for everything anew. Behind an answer with more than a thousand actors
	// it is resyncEach for each of them: 5,000 dormant ones with lists, which open and fall asleep again, take 30 ms, and who asks sends one byte.
	resyncPeriod = time.Second
	resyncEach   = time.Millisecond
	updateHeader = 6 // bytes of an update beside its fields: flags, channel, length and mask
)

// sendState runs at each Flush. It takes back the updates that have not left, and hands the machine the newest values of all that the
// client lacks. When the path does not take all, the most urgent go first.
func (c *Conn) sendState(now time.Time) {
	s := &c.shown.state
	if !s.pending() || !c.usable() {
		return
	}
	c.answerResync(now)

	clock := c.link.LockNow() // not the game's, which may jump
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

// answerResync marks everything as lacking for a client that has asked for it, once in a resyncPeriod at most.
func (c *Conn) answerResync(now time.Time) {
	s := &c.shown.state
	if !s.resync {
		return
	}
	if since := now.Sub(s.resyncAt); since < 0 || since >= s.resyncPause { // the game's clock may go back
		s.resync, s.resyncAt = false, now
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

// settleStates takes the fates of updates from the machine, under the link's lock. When one was lost or taken back, the newest values of its
// fields go again; its calls go again only when it was taken back: they leave at most once.
func (c *Conn) settleStates() {
	s := &c.shown.state
	for n := c.machine.Fates(s.fates[:]); n > 0; n = c.machine.Fates(s.fates[:]) {
		for _, f := range s.fates[:n] {
			sent := &s.sent.records[f.Record]
			sent.settle()
			if !f.Kept && !sent.to.closed {
				sent.to.giveBack(sent)
			}
			if f.Back {
				sent.to.requeue(sent.calls)
			}
			s.sent.release(f.Record)
		}
	}
}

// compose hands updates to the machine while there is room, and returns their bytes. It is called under the link's lock.
func (c *Conn) compose(now time.Time, room int) (used int) {
	s := &c.shown.state
	kept := s.dirty[:0]
	s.heldBack = false
	updates := 0
	for i, o := range s.dirty {
		if s.heldBack = used >= room || updates >= maxUpdates; s.heldBack {
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
		if o.listed = !o.closed && (o.lacks != 0 || !o.calls.Empty()); o.listed {
			kept = append(kept, o)
		}
	}
	clear(s.dirty[len(kept):])
	s.dirty = kept
	return used
}

// update hands over what the client of o lacks, as much of it as one message takes, and returns the bytes.
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
	if sent.list = sent.fields&lists != 0; sent.list {
		o.items++
	}
	o.told |= sent.fields
	o.since = now
	return c.sendUpdate(record, b)
}

// updateEarly hands over what has changed since the open left, before the client has acknowledged that: otherwise a new actor would stand
// still for a round trip. The client may drop it, so the fields stay in lacks, and leave again after the acknowledgement. UE: OpenAcked.
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

// sendQueued hands over calls that wait behind the states of o, as many as one message takes, and returns the bytes.
func (c *Conn) sendQueued(o *opening, now time.Time) int {
	record, sent := c.shown.state.sent.record(o, now)
	sent.calls = o.calls.Cut(sent.calls, c.maxUpdate())
	b := state.AppendMask(c.world.replicator.fields[:0], 0, o.actor.class.fields)
	return c.sendUpdate(record, append(b, sent.calls...))
}

// sendUpdate hands a recorded update, b, to the machine, and returns its bytes. When the machine does not take it, they are 0 and the
// record is free.
func (c *Conn) sendUpdate(record uint64, b []byte) int {
	c.world.replicator.fields = b // the next update uses its memory
	sent := &c.shown.state.sent.records[record]
	o := sent.to
	err := c.machine.SendTracked(o.channel, record, b)
	switch {
	case err == nil:
		return updateHeader + len(b)
	case sent.fields == 0: // the fields of an early update were never taken from lacks; calls end with the channel
	case errors.Is(err, bunch.ErrBunchTooLarge):
		c.world.stateFailed(o.actor, o.actor.class.stateOf(bits.TrailingZeros64(uint64(sent.fields))), err)
	default: // the connection is over, or the channel about to close
		o.giveBack(sent)
	}
	sent.settle()
	c.shown.state.sent.release(record)
	return 0
}

// maxUpdate returns how many bytes of fields one message to the client takes, besides the mask of at most 9.
func (c *Conn) maxUpdate() int { return min(bunch.EntryBytes, c.maxBunch) - 16 }

// markAll marks everything that the client may see as lacking, because it could not keep what it acknowledged. It returns of how many actors.
func (c *Conn) markAll() (marked int) {
	for _, channel := range slices.Sorted(maps.Keys(c.channels)) {
		a := c.channels[channel]
		if o := a.openingOn(c); o != nil {
			a.compareAll() // an item that is not due yet was never encoded
			o.markLists(true)
			o.mark(o.sees)
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

// dormantWithLists returns the dormant actors with lists of which the client has a copy. Actors without lists lose nothing: their other
// states came reliably, with the close.
func (c *Conn) dormantWithLists() (actors []*Actor) {
	for a := range c.shown.detached {
		if a.class.lists != 0 && c.shown.detached[a] == Dormancy {
			actors = append(actors, a)
		}
	}
	slices.SortFunc(actors, func(a, b *Actor) int { return cmp.Compare(a.ref, b.ref) })
	return actors
}
