package bunch

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Send queues a message for a channel. It copies payload.
//
// The connection is unchanged if the error is ErrBunchTooLarge, ErrClosed or, with the policy
// OverflowError, ErrReliableBufferFull. With OverflowClose, a reliable buffer that is full ends
// the connection, and so do reliable messages that hold more than the SendLimit. The error is
// then an *Error with code ReliableBufferOverflow.
func (c *Conn) Send(number uint64, d Delivery, payload []byte) error {
	if c.err != nil {
		return c.err
	}
	if len(payload) > c.limits.MaxBunch {
		return fmt.Errorf("%w: %d bytes on channel %d; the limit is %d (MaxBunch)",
			ErrBunchTooLarge, len(payload), number, c.limits.MaxBunch)
	}
	ch := c.channels.find(number)
	if ch == nil || ch.outClosed {
		return c.closedError(number)
	}
	c.changed = c.changed || !c.cork.on
	switch {
	case d <= ReliableUnordered:
		err := c.sendReliable(ch, d, payload)
		if c.traced() && err == nil {
			c.trace(Event{
				Kind:     "queued",
				Channel:  number,
				Sequence: ch.next - 1,
				Bytes:    len(payload),
				Delivery: d,
			})
		}
		return err
	case d == Tracked:
		return fmt.Errorf("bunch: channel %d: tracked messages are sent with SendTracked", number)
	case d > Tracked:
		return fmt.Errorf("bunch: channel %d: unknown delivery %d; it must be from Reliable (%d) to UnreliableSequenced (%d)",
			number, d, Reliable, UnreliableSequenced)
	case number == 0:
		return errors.New("bunch: channel 0 accepts only reliable messages, because it is for control messages")
	}
	c.sendUnreliable(ch, d, payload)
	return nil
}

// Close queues the last message of a channel, whose payload may be nil. There is always room for
// it, because other messages leave one entry of the reliable buffer free. Channel 0 cannot be
// closed.
//
// payload is copied, and must fit into one entry. Close returns ErrBunchTooLarge if it doesn't, and
// ErrClosed if the channel was never opened or is closed already.
func (c *Conn) Close(number uint64, payload []byte) error {
	if c.err != nil {
		return c.err
	}
	if number == 0 {
		return errors.New("bunch: channel 0 cannot be closed, because it is for control messages")
	}
	ch := c.channels.find(number)
	if ch == nil || ch.outClosed {
		return c.closedError(number)
	}
	if len(payload) > maxWhole {
		return fmt.Errorf("%w: close of channel %d has %d bytes; the limit is %d",
			ErrBunchTooLarge, number, len(payload), maxWhole)
	}
	c.changed = c.changed || !c.cork.on
	var block []byte
	if payload != nil {
		block = appendMessage(c.blocks.get(len(payload)+2), payload)
	}
	c.closeChannel(ch, byte(Reliable)|flagWhole|flagClose, block)
	return nil
}

// closeChannel queues a close with the given flags, after which nothing more can be sent on
// the channel.
func (c *Conn) closeChannel(ch *channel, flags byte, block []byte) {
	c.push(ch, flags, block)
	ch.outClosed = true
	c.closeTracked(ch)
}

// sendReliable puts a message into the reliable buffer. A small message joins the newest entry
// if there is still room in it. Otherwise the message takes one or more entries of its own.
func (c *Conn) sendReliable(ch *channel, d Delivery, payload []byte) error {
	if ch.isPlay() && c.OverSendLimit() {
		return c.overSendLimit()
	}
	if c.merge(ch, d, payload) {
		return nil
	}
	n := Entries(len(payload))
	// Leave one entry for the close, as Unreal does (UChannel::SendBunch, bOverflowsReliable).
	if ch.outstanding()+n >= slotsOf(ch.number, c.limits.ReliableBuffer) {
		return c.overflow(ch, n)
	}

	if len(payload) <= maxWhole {
		c.push(ch, byte(d)|flagWhole, appendMessage(c.blocks.get(len(payload)+2), payload))
		return nil
	}

	// The message is a run: one entry for each EntryBytes. The first entry pays for all of
	// them (see entry.cost).
	first := ch.next
	cost := 0
	for i := range n {
		part := payload[:min(len(payload), EntryBytes)]
		payload = payload[len(part):]
		flags := byte(d)
		if i == 0 {
			flags |= flagBegin
		}
		if i == n-1 {
			flags |= flagEnd
		}
		c.push(ch, flags, append(c.blocks.get(EntryBytes), part...))
		cost += costOf(ch.out.at(ch.next-1).flags, len(part), 1)
	}
	ch.out.at(first).runCost = int32(cost)
	return nil
}

// overflow handles a message of n entries that ch has no room for, according to
// Config.Overflow.
func (c *Conn) overflow(ch *channel, n int) error {
	return c.noRoom("channel %d uses %d of %d entries (ReliableBuffer) and needs %d more",
		ch.number, ch.outstanding(), slotsOf(ch.number, c.limits.ReliableBuffer), n)
}

// overSendLimit handles a message or a channel that isn't accepted because of Config.SendLimit,
// according to Config.Overflow.
func (c *Conn) overSendLimit() error {
	return c.noRoom("unacknowledged reliable messages hold %d bytes; the limit is %d (SendLimit)",
		c.flow.held, c.config.SendLimit)
}

// noRoom returns the error for something that there's no room for, with the reason. Unless
// Config.Overflow is OverflowError, it ends the connection.
func (c *Conn) noRoom(format string, args ...any) error {
	if c.config.Overflow == OverflowError {
		return fmt.Errorf("%w: "+format, append([]any{ErrReliableBufferFull}, args...)...)
	}
	return c.fail(violation(ReliableBufferOverflow, format, args...))
}

// merge adds a small message to the newest entry, provided that the entry has room and hasn't
// been sent yet, and reports whether it did. Unreal merges bunches likewise (UChannel::SendBunch,
// Merge).
func (c *Conn) merge(ch *channel, d Delivery, payload []byte) bool {
	if ch.firstUnsent == ch.next {
		return false
	}
	e := ch.out.at(ch.next - 1)
	size := varintLen(uint64(len(payload))) + len(payload)
	mergeable := e.flags&^flagOpen == byte(d)|flagWhole
	if e.started || !mergeable || len(e.payload)+size > EntryBytes || e.messages == maxMessages {
		return false
	}
	e.messages++
	before := e.memory()
	e.payload = c.blocks.grow(e.payload, size)
	c.addHeld(ch, e.memory()-before)
	e.payload = appendMessage(e.payload, payload)
	e.pieces[0].end = uint16(len(e.payload))
	c.addQueued(ch, size)
	return true
}

// push appends an entry to the reliable buffer of ch.
func (c *Conn) push(ch *channel, flags byte, block []byte) {
	if ch.next == 0 && ch.ours {
		flags |= flagOpen
	}
	ch.ensureSlot(&c.rings)
	e := ch.out.at(ch.next)
	e.init(flags, block)
	ch.next++
	c.flow.entries++
	c.addHeld(ch, e.memory())
	c.addQueued(ch, len(block))
	c.schedule(ch)
}

// addHeld is called when the memory held by the entries of ch changes. bytes is the change, which
// may be negative. Only play is counted, because package stream limits the bulk that it sends, and
// the reliable buffer of channel 0 is small.
func (c *Conn) addHeld(ch *channel, bytes int) {
	if ch.isPlay() {
		c.flow.held += bytes
	}
}

// addQueued is called when the number of bytes queued on ch changes. bytes is the change,
// which may be negative.
func (c *Conn) addQueued(ch *channel, bytes int) {
	isNew := bytes > 0 && ch.predecessor == nil // rather than sent or deferred
	if isNew {
		c.saturation.addNew(bytes, ch.isBulk())
	}
	ch.queuedBytes += bytes
	c.level(ch).add(ch, bytes)
}

// schedule adds ch to the queues of its level that it belongs to and isn't in yet: resend if it has
// entries to resend, and unsent if it has anything that was never sent.
func (c *Conn) schedule(ch *channel) {
	if ch.predecessor != nil {
		return // releaseSuccessor schedules it
	}
	lv := c.level(ch)
	if !ch.inResendQueue && ch.resend.len() > 0 {
		ch.inResendQueue = true
		lv.resend.push(ch)
	}
	if !ch.inUnsentQueue && ch.hasUnsent() {
		ch.inUnsentQueue = true
		lv.unsent.push(ch)
	}
}

// A cork holds back new messages of play (the game's own traffic) while the owner runs a tick,
// so that they're sent in a few full packets. It works much like TCP_CORK.
type cork struct {
	on    bool          // between Cork(true) and Cork(false)
	since time.Duration // when it was last turned on

	// flushing is set while messages may be sent in spite of the cork. This is the case after
	// Flush, and if a tick begins while messages of an earlier tick are still queued. It's
	// cleared once nothing more can be sent.
	flushing bool
}

// open reports whether new messages of play may be sent.
func (k *cork) open() bool { return !k.on || k.flushing }

// Cork holds back new messages of play from Cork(true) to Cork(false), so that the messages of a
// tick are sent in a few full packets.
//
// A long tick does not hold up the peer, because acks that are due, retransmissions, probes and
// bulk are still sent, and a higher limit is delayed by no more than Config.AckDelay.
//
// If ticks take longer than their interval, a tick may begin before the carrier has sent all
// messages of the previous tick. These messages are then sent regardless of the cork, along with
// any messages that are queued in the meantime.
func (c *Conn) Cork(on bool) {
	begins, ends := on && !c.cork.on, !on && c.cork.on
	if begins {
		c.cork.since = c.now
		c.saturation.beginTick(c.now, c.unreliables.messages-c.saturation.deferred)
		c.countTick()
		if c.hasPending(bulkLevel) {
			c.cork.flushing = true
		}
	}
	if ends && (c.hasPending(len(c.levels)) || c.flow.updateDue) {
		c.changed = true
	}
	if !on {
		c.cork.flushing = false
		c.saturation.endTick()
	}
	c.cork.on = on
}

// Flush lets everything that is queued now be sent, even during a tick.
func (c *Conn) Flush() {
	c.cork.flushing = c.cork.on
	c.changed = true
}

// QueueTime estimates how long it takes to send everything that is queued on a channel or goes
// before it. The estimate is the number of these bytes, divided by the delivery rate or by
// Config.Rate, whichever is lower. QueueTime returns 0 as long as no rate is known.
func (c *Conn) QueueTime(number uint64) time.Duration {
	ch := c.channels.find(number)
	if ch == nil {
		return 0
	}
	rate := c.rate()
	if rate == 0 {
		return 0
	}
	bytes := 0
	own := c.level(ch)
	for i := range c.levels {
		lv := &c.levels[i]
		if i == bulkLevel {
			bytes += c.tracked.bytes // tracked messages are sent right before bulk
		}
		bytes += lv.queued
		if lv == own {
			break
		}
	}
	return time.Duration(float64(bytes) / rate * float64(time.Second))
}

// rate returns the rate at which we expect to send a backlog, in bytes per second, or 0
// if we don't know it.
func (c *Conn) rate() float64 {
	rate := c.congestion.Estimate()
	if c.path.Fates {
		rate = c.path.Rate
	}
	if limit := float64(c.config.Rate); limit > 0 && (rate == 0 || limit < rate) {
		return limit
	}
	return rate
}

// Watch requests a Wake for when a channel has drained: fewer than out entries of its reliable
// buffer are in use and its QueueTime is at most queued, or none is in use at all. A watch
// fires once, and replaces an earlier watch of the channel.
func (c *Conn) Watch(number uint64, out int, queued time.Duration) {
	ch := c.channels.find(number)
	if ch == nil {
		return
	}
	if !ch.watch.armed {
		c.watched = append(c.watched, ch)
	}
	ch.watch = watch{armed: true, out: out, queued: queued}
	c.checkWatches()
	c.changed = c.changed || c.wake
}

// checkWatches fires the watches of channels that have drained, and disarms them.
func (c *Conn) checkWatches() {
	c.watched = slices.DeleteFunc(c.watched, func(ch *channel) bool {
		out := ch.outstanding()
		ch.watch.armed = out > 0 && (out >= ch.watch.out || c.QueueTime(ch.number) > ch.watch.queued)
		c.wake = c.wake || !ch.watch.armed
		return !ch.watch.armed
	})
}

// After holds back everything on channel number until the peer has acknowledged everything on
// channel earlier, including its close. The peer is therefore certain to receive all of earlier
// first, at the cost of a round trip. There is no other way to order channels.
//
// This end must have closed earlier, and must not have sent anything on number yet. Neither may be
// channel 0. After does nothing if all of earlier is acknowledged already.
func (c *Conn) After(number, earlier uint64) error {
	if c.err != nil {
		return c.err
	}
	ch, before := c.channels.find(number), c.channels.find(earlier)
	switch {
	case ch == nil:
		return c.closedError(number)
	case number == 0 || earlier == 0:
		return errors.New("bunch: channel 0 cannot come before or after another, because it always goes first and never closes")
	case c.channels.isUnseen(earlier):
		return fmt.Errorf("bunch: channel %d cannot come after channel %d, which was never opened", number, earlier)
	case before == nil || before.outClosed && before.first == before.next:
		return nil
	case !before.outClosed:
		return fmt.Errorf("bunch: channel %d cannot come after channel %d, which is not closed", number, earlier)
	case before.successor != nil:
		return fmt.Errorf("bunch: channel %d cannot come after channel %d, because channel %d already does",
			number, earlier, before.successor.number)
	case ch.predecessor != nil:
		return fmt.Errorf("bunch: channel %d cannot come after channel %d, because it already comes after channel %d",
			number, earlier, ch.predecessor.number)
	case ch.next > 0 || ch.unreliable.len() > 0:
		return fmt.Errorf("bunch: channel %d cannot come after channel %d, because messages were already sent on it",
			number, earlier)
	}
	ch.predecessor = before
	before.successor = ch
	return nil
}

// releaseSuccessor allows the channel that comes after ch to send, provided that all of
// ch is acknowledged.
func (c *Conn) releaseSuccessor(ch *channel) {
	next := ch.successor
	if next == nil || ch.first < ch.next {
		return
	}
	ch.successor = nil
	next.predecessor = nil
	c.level(next).deferred -= next.queuedBytes
	c.saturation.deferred -= next.unreliable.len()
	c.schedule(next)
	c.changed = true
}
