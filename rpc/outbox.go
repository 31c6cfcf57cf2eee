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

// stateOutbox has the states that a server's connection has yet to send to its client, and the updates on their way. It belongs to the
// world's goroutine.
type stateOutbox struct {
	dirty    []*opening  // of clients that lack something; some may lack nothing any more
	sent     []sentState // by record: updates whose fate is not known
	free     []uint64    // records of sent that are unused
	room     outbox.Room
	given    int // bytes that the last Flush handed to the machine
	pace     state.Pace
	began    time.Time // by the link's clock, from which pace counts
	unsent   bool      // this Flush took back some of what the last one handed over
	heldBack bool      // the last Flush had no room for all
	resync   bool      // the client could not keep what it acknowledged, and asks for everything anew
	resyncAt time.Time // when that was last answered
	fates    [64]bunch.Fate
}

// sentState is an update that was handed to the machine.
type sentState struct {
	to     *opening
	fields state.Mask
	items  []uint32  // numbers of the items, when fields is a list
	calls  []byte    // calls of ForceQueue methods; then there are no fields
	at     time.Time // when it was handed over
	since  time.Time // opening.since before that
}

const (
	// maxUpdates is how many updates leave at a Flush. The machine holds 256 KiB and counts 64 bytes for each beside its own, so it
	// takes them and the largest outbox.Room.
	maxUpdates = 2000
	// resyncPeriod is the least time between two answers to a client that asks for everything anew.
	resyncPeriod = time.Second
	updateHeader = 6 // bytes of an update beside its fields: flags, channel, length and mask
)

// sendState runs at each Flush. It takes back the updates that have not left, and hands the machine the newest values of all that the
// client lacks. When the path does not take all, the most urgent go first.
func (c *Conn) sendState(now time.Time) {
	s := &c.shown.state
	if len(s.dirty) == 0 && len(s.free) == len(s.sent) && !s.resync || !c.usable() {
		return
	}
	if since := now.Sub(s.resyncAt); s.resync && (since < 0 || since >= resyncPeriod) { // the game's clock may go back
		s.resyncAt = now
		c.markAll()
	}
	clock := c.link.Lock() // not the game's, which may jump
	defer c.link.Unlock()
	c.world.frame.cork(c)
	room := c.stateRoom(clock, c.takeBackStates())
	if s.unsent || s.heldBack {
		s.sort(now)
	}
	s.given = c.compose(now, room)
	s.pace.Sent(s.given)
}

// takeBackStates settles the updates of earlier Flushes: first those whose fate is known, then those that it takes back. It returns the
// bytes of the latter, and is called under the link's lock.
func (c *Conn) takeBackStates() (unsent int) {
	unsent = c.machine.TrackedQueued()
	c.settleStates(false)
	c.machine.TakeBack()
	c.settleStates(true)
	return unsent
}

// stateRoom returns how many bytes of updates this Flush may hand over, after so many of the last one's were taken back. It is called
// under the link's lock.
func (c *Conn) stateRoom(clock time.Time, unsent int) int {
	s := &c.shown.state
	s.unsent = unsent > 0
	s.room.Adapt(unsent)
	if s.began.IsZero() {
		s.began = clock
	}
	since := clock.Sub(s.began)
	recent, least, rounds := c.machine.RecentRTT()
	s.pace.Look(since, recent, least, rounds, s.given-unsent, s.unsent || s.heldBack)
	s.pace.Sent(-unsent)
	return s.pace.Room(since, s.room.Bytes())
}

// sort puts the most urgent openings first.
func (s *stateOutbox) sort(now time.Time) {
	for _, o := range s.dirty {
		o.claim = o.urgency(now)
	}
	slices.SortStableFunc(s.dirty, func(a, b *opening) int { return cmp.Compare(b.claim, a.claim) })
}

// settleStates takes the fates of updates from the machine. When one was lost or taken back, the newest values of its fields go again;
// its calls go again only when it was taken back: they leave at most once.
func (c *Conn) settleStates(back bool) {
	s := &c.shown.state
	for n := c.machine.Fates(s.fates[:]); n > 0; n = c.machine.Fates(s.fates[:]) {
		for _, f := range s.fates[:n] {
			sent := s.sent[f.Record]
			sent.settle()
			if !f.Kept && !sent.to.closed {
				sent.to.giveBack(sent)
			}
			if back {
				sent.to.requeue(sent.calls)
			}
			s.release(f.Record)
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

// updateEarly hands over what has changed since the open left, before the client has acknowledged that: otherwise a new actor would stand
// still for a round trip. The client may drop it, so the fields stay in lacks, and leave again after the acknowledgement. UE: OpenAcked.
func (c *Conn) updateEarly(o *opening, now time.Time) int {
	if !c.machine.Opening(o.channel) {
		return 0
	}
	fields := o.actor.states.fitting(o.fresh&o.lacks&^o.actor.class.listFields(), c.maxUpdate())
	if fields == 0 {
		return 0
	}
	b := o.actor.appendFields(c.world.replicator.fields[:0], fields)
	c.world.replicator.fields = b
	o.fresh &^= fields
	record, sent := c.shown.state.record()
	sent.to, sent.at, sent.since, o.since = o, now, o.since, now
	return c.sendUpdate(o, record, b)
}

// sendUpdate hands an update of a record to the machine, and returns its bytes. It is 0, and the record is free, when the connection is
// over or the channel about to close.
func (c *Conn) sendUpdate(o *opening, record uint64, b []byte) int {
	if c.machine.SendTracked(o.channel, record, b) != nil {
		c.shown.state.release(record)
		return 0
	}
	return updateHeader + len(b)
}

// update hands over what the client of o lacks, as much of it as one message takes, and returns the bytes.
func (c *Conn) update(o *opening, now time.Time) int {
	if !c.machine.Opened(o.channel) {
		return c.updateEarly(o, now)
	}
	record, sent := c.shown.state.record()
	b := c.world.replicator.fields[:0]
	if fields := o.lacks &^ o.actor.class.listFields(); fields != 0 {
		sent.fields = o.actor.states.fitting(fields, c.maxUpdate())
		b = o.actor.appendFields(b, sent.fields)
		o.lacks &^= sent.fields
	} else {
		b = o.appendList(b, sent)
	}
	c.world.replicator.fields = b
	o.told |= sent.fields
	if sent.fields&o.actor.class.listFields() != 0 {
		o.items++
	}
	sent.to, sent.at, sent.since, o.since = o, now, o.since, now
	err := c.machine.SendTracked(o.channel, record, b)
	switch {
	case err == nil:
		return updateHeader + len(b)
	case errors.Is(err, bunch.ErrBunchTooLarge):
		c.world.stateFailed(o.actor, o.actor.class.stateOf(bits.TrailingZeros64(uint64(sent.fields))), err)
	default: // the connection is over, or the channel about to close
		o.giveBack(*sent)
	}
	sent.settle()
	c.shown.state.release(record)
	return 0
}

// sendQueued hands over calls that wait behind the states of o, as many as one message takes, and returns the bytes.
func (c *Conn) sendQueued(o *opening, now time.Time) int {
	record, sent := c.shown.state.record()
	sent.calls = o.calls.Cut(sent.calls, c.maxUpdate())
	b := state.AppendMask(c.world.replicator.fields[:0], 0, o.actor.class.fields)
	b = append(b, sent.calls...)
	c.world.replicator.fields = b
	sent.to, sent.at, sent.since = o, now, o.since
	return c.sendUpdate(o, record, b)
}

// settle notes that an update is no longer on its way.
func (s *sentState) settle() {
	if s.fields&s.to.actor.class.listFields() != 0 {
		s.to.items--
	}
}

// maxUpdate returns how many bytes of fields one message to the client takes, besides the mask of at most 9.
func (c *Conn) maxUpdate() int { return min(bunch.EntryBytes, c.maxBunch) - 16 }

// record returns an unused record, in which to keep what an update holds until its fate is known.
func (s *stateOutbox) record() (uint64, *sentState) {
	if n := len(s.free); n > 0 {
		record := s.free[n-1]
		s.free = s.free[:n-1]
		return record, &s.sent[record]
	}
	s.sent = append(s.sent, sentState{})
	return uint64(len(s.sent) - 1), &s.sent[len(s.sent)-1]
}

// release makes a record unused. The memory of its items and calls is used again.
func (s *stateOutbox) release(record uint64) {
	s.sent[record] = sentState{items: s.sent[record].items[:0], calls: s.sent[record].calls[:0]}
	s.free = append(s.free, record)
}

// markAll marks everything that the client may see as lacking, because it could not keep what it acknowledged.
func (c *Conn) markAll() {
	c.shown.state.resync = false
	for _, channel := range slices.Sorted(maps.Keys(c.channels)) {
		a := c.channels[channel]
		if o := a.openingOn(c); o != nil {
			a.compareAll() // an item that is not due yet was never encoded
			o.markLists(true)
			o.mark(o.sees)
		}
	}
	for _, a := range c.sleepers() {
		if err := a.open(c); err != nil {
			a.notOpened(c, err)
		}
	}
}

// sleepers returns the dormant actors with lists of which the client has a copy. Without lists nothing is lost: other states came with
// the close, reliably.
func (c *Conn) sleepers() (actors []*Actor) {
	for a := range c.shown.asleep {
		if a.class.lists > 0 && c.shown.asleep[a] == Dormancy {
			actors = append(actors, a)
		}
	}
	slices.SortFunc(actors, func(a, b *Actor) int { return cmp.Compare(a.ref, b.ref) })
	return actors
}
