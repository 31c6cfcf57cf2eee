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

// stateOutbox has the states that the client of a server's connection is to get, and those on their way. It belongs to the world's
// goroutine.
type stateOutbox struct {
	dirty []*opening // those that lack something, and some that no longer do
	sent  []sentState
	free  []uint64 // places in sent
	room  outbox.Room
	given int // bytes that the last Flush handed over
	pace  state.Pace
	began time.Time // by the link's clock, from which pace counts
	short bool      // some of what the last Flush handed over had not left by this one
	held  bool      // the last Flush had no room for all
	all   bool      // the client could not keep what it acknowledged, and has asked for everything anew
	allAt time.Time // when that was last marked
	fates [64]bunch.Fate
}

// sentState is an update on its way.
type sentState struct {
	to     *opening
	fields state.Mask
	items  []uint32  // when fields is a list
	calls  []byte    // when it holds calls of ForceQueue, and no fields
	at     time.Time // when it was handed over
	since  time.Time // opening.since before it was handed over
}

const (
	// maxUpdates is how many updates leave at a Flush: the machine counts 64 bytes for each beside its own and holds 256 KiB, so that it takes
	// them and the largest outbox.Room.
	maxUpdates = 2000
	// allPeriod is the least time between two answers to a client that asks for all states anew.
	allPeriod    = time.Second
	updateHeader = 6 // bytes of an update beside its fields: flags, channel, length and mask
)

// sendState settles what became of earlier updates, takes back what has not left, and hands the newest of what the client
// lacks to the machine: what has waited longest goes first when the path does not take all.
func (c *Conn) sendState(now time.Time) {
	s := &c.shown.state
	if len(s.dirty) == 0 && len(s.free) == len(s.sent) && !s.all || !c.usable() {
		return
	}
	if since := now.Sub(s.allAt); s.all && (since < 0 || since >= allPeriod) {
		s.allAt = now
		c.markAll()
	}
	clock := c.link.Lock() // not the game's, which may jump
	defer c.link.Unlock()
	c.world.frame.cork(c)
	left := c.machine.TrackedQueued()
	c.settleStates(false)
	c.machine.TakeBack()
	c.settleStates(true)
	s.short = left > 0
	s.room.Adapt(left)
	if s.began.IsZero() {
		s.began = clock
	}
	since := clock.Sub(s.began)
	recent, least, rounds := c.machine.RecentRTT()
	s.pace.Look(since, recent, least, rounds, s.given-left, s.short || s.held)
	s.pace.Sent(-left)
	s.given = s.pace.Room(since, s.room.Bytes())
	if s.short || s.held {
		for _, o := range s.dirty {
			o.claim = o.urgency(now)
		}
		slices.SortStableFunc(s.dirty, func(a, b *opening) int { return cmp.Compare(b.claim, a.claim) })
	}
	s.given = c.compose(now, s.given)
	s.pace.Sent(s.given)
}

// settleStates takes the fates of updates from the machine. The client may not have the fields of one that was lost: their newest values go
// again. Calls go again only when they were taken back before they left.
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

// compose hands updates to the machine while there is room, and returns how many bytes it took. It is called under the link's lock.
func (c *Conn) compose(now time.Time, room int) (used int) {
	s := &c.shown.state
	kept := s.dirty[:0]
	s.held = false
	updates := 0
	for i, o := range s.dirty {
		if s.held = used >= room || updates >= maxUpdates; s.held {
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

// updateEarly hands over what has changed since the open left, which the client may not have yet: else a new actor would stand still for a
// round trip. The client lacks it all the same, and gets it once more when it has acknowledged the open. UE: until OpenAcked.
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
	if c.machine.SendTracked(o.channel, record, b) != nil {
		c.shown.state.release(record)
		return 0
	}
	return updateHeader + len(b)
}

// update hands over what o lacks, or as much of it as one message takes, and returns its bytes.
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

// sendQueued hands over calls that wait behind the states of o, as many as one message takes, and returns its bytes.
func (c *Conn) sendQueued(o *opening, now time.Time) int {
	record, sent := c.shown.state.record()
	sent.calls = o.calls.Cut(sent.calls, c.maxUpdate())
	b := state.AppendMask(c.world.replicator.fields[:0], 0, o.actor.class.fields)
	b = append(b, sent.calls...)
	c.world.replicator.fields = b
	sent.to, sent.at, sent.since = o, now, o.since
	if c.machine.SendTracked(o.channel, record, b) != nil { // the connection is over, or the channel about to close
		c.shown.state.release(record)
		return 0
	}
	return updateHeader + len(b)
}

// settle notes that an update is no longer on its way.
func (s *sentState) settle() {
	if s.fields&s.to.actor.class.listFields() != 0 {
		s.to.items--
	}
}

// maxUpdate returns how many bytes of fields travel to the client in one message, beside the mask of at most 9.
func (c *Conn) maxUpdate() int { return min(bunch.EntryBytes, c.maxBunch) - 16 }

// record returns a free place for what a message holds until its fate is known.
func (s *stateOutbox) record() (uint64, *sentState) {
	if n := len(s.free); n > 0 {
		record := s.free[n-1]
		s.free = s.free[:n-1]
		return record, &s.sent[record]
	}
	s.sent = append(s.sent, sentState{})
	return uint64(len(s.sent) - 1), &s.sent[len(s.sent)-1]
}

// release frees a place, but for the memory of its items.
func (s *stateOutbox) release(record uint64) {
	s.sent[record] = sentState{items: s.sent[record].items[:0], calls: s.sent[record].calls[:0]}
	s.free = append(s.free, record)
}

// markAll marks all that the client may see, for a client that could not keep what it acknowledged.
func (c *Conn) markAll() {
	c.shown.state.all = false
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

// sleepers returns the actors with lists that sleep at the client. Other states came with the close, reliably.
func (c *Conn) sleepers() (actors []*Actor) {
	for a := range c.shown.asleep {
		if a.class.lists > 0 && c.shown.asleep[a] == Dormancy {
			actors = append(actors, a)
		}
	}
	slices.SortFunc(actors, func(a, b *Actor) int { return cmp.Compare(a.ref, b.ref) })
	return actors
}
