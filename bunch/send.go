package bunch

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Send queues a message. It copies payload.
//
// After ErrBunchTooLarge, ErrClosed and, under policy OverflowError, ErrReliableBufferFull,
// the connection is unchanged. Under OverflowClose, a full reliable buffer ends the
// connection, and the error is an *Error with ReliableBufferOverflow.
func (c *Conn) Send(number uint64, d Delivery, payload []byte) error {
	if c.err != nil {
		return c.err
	}
	if len(payload) > c.limits.MaxBunch {
		return fmt.Errorf("%w: %d bytes on channel %d, at most %d (MaxBunch)",
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
	case d > UnreliableSequenced:
		return fmt.Errorf("bunch: unknown delivery %d", d)
	case number == 0:
		return errors.New("bunch: the control channel takes reliable messages only")
	}
	c.sendUnreliable(ch, d, payload)
	return nil
}

// Close queues the last message of a channel. payload may be nil. The reliable buffer
// always has room for it.
func (c *Conn) Close(number uint64, payload []byte) error {
	if c.err != nil {
		return c.err
	}
	ch := c.channels.find(number)
	if ch == nil || ch.outClosed || number == 0 {
		return c.closedError(number)
	}
	if len(payload) > maxWhole {
		return fmt.Errorf("%w: close of channel %d carries %d bytes, at most %d",
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

// closeChannel queues a close with the given flags. Nothing more can be sent on the
// channel.
func (c *Conn) closeChannel(ch *channel, flags byte, block []byte) {
	c.push(ch, flags, block)
	ch.outClosed = true
	c.closeTracked(ch)
}

// sendReliable puts a message into the reliable buffer. The newest entry takes it if that
// was not sent and has room. Otherwise the message takes one or more new entries.
func (c *Conn) sendReliable(ch *channel, d Delivery, payload []byte) error {
	if c.merge(ch, d, payload) {
		return nil
	}
	n := Entries(len(payload))
	// UE: UChannel::SendBunch, bOverflowsReliable
	if ch.outstanding()+n >= slotsOf(ch.number, c.limits.ReliableBuffer) {
		return c.overflow(ch, n)
	}

	if len(payload) <= maxWhole {
		c.push(ch, byte(d)|flagWhole, appendMessage(c.blocks.get(len(payload)+2), payload))
		return nil
	}

	first := ch.next
	cost := 0
	for i := range n {
		part := payload[min(i*EntryBytes, len(payload)):min((i+1)*EntryBytes, len(payload))]
		flags := byte(d)
		if i == 0 {
			flags |= flagBegin
		}
		if i == n-1 {
			flags |= flagEnd
		}
		c.push(ch, flags, append(c.blocks.get(EntryBytes), part...))
		cost += price(ch.out.at(ch.next-1).flags, len(part), 1)
	}
	ch.out.at(first).runPrice = int32(cost)
	return nil
}

// overflow handles a message of n entries for which ch has no room, according to
// Config.Overflow.
func (c *Conn) overflow(ch *channel, n int) error {
	out, slots := ch.outstanding(), slotsOf(ch.number, c.limits.ReliableBuffer)
	if c.config.Overflow == OverflowError {
		return fmt.Errorf("%w: channel %d holds %d of %d entries (ReliableBuffer), %d more asked",
			ErrReliableBufferFull, ch.number, out, slots, n)
	}
	return c.fail(violation(ReliableBufferOverflow, "channel %d holds %d of %d entries (ReliableBuffer), %d more asked",
		ch.number, out, slots, n))
}

// merge adds a small message to the last entry if that was never sent, and reports whether
// it did. UE: UChannel::SendBunch, Merge.
func (c *Conn) merge(ch *channel, d Delivery, payload []byte) bool {
	if ch.fresh == ch.next {
		return false
	}
	e := ch.out.at(ch.next - 1)
	size := varintLen(uint64(len(payload))) + len(payload)
	mergeable := e.flags&^flagOpen == byte(d)|flagWhole
	if e.started || !mergeable || len(e.payload)+size > EntryBytes || e.messages == maxMessages {
		return false
	}
	e.messages++
	e.payload = c.blocks.grown(e.payload, size)
	e.payload = appendMessage(e.payload, payload)
	e.pieces[0].end = uint16(len(e.payload))
	c.addQueued(ch, size)
	return true
}

// push appends an entry to ch's reliable buffer.
func (c *Conn) push(ch *channel, flags byte, block []byte) {
	if ch.next == 0 && ch.ours {
		flags |= flagOpen
	}
	ch.makePlace(&c.rings)
	ch.out.at(ch.next).init(flags, block)
	ch.next++
	c.flow.entries++
	c.addQueued(ch, len(block))
	c.schedule(ch)
}

// addQueued counts bytes queued on ch. A negative number counts bytes that are no longer
// queued.
func (c *Conn) addQueued(ch *channel, bytes int) {
	switch {
	case bytes < 0 || ch.earlier != nil:
	case ch.isBulk():
		c.saturation.newBytes.bulk += bytes
	default:
		c.saturation.newBytes.play += bytes
	}
	ch.queuedBytes += bytes
	c.level(ch).add(ch, bytes)
}

// schedule adds ch to the queues of its level for which it has something to send.
func (c *Conn) schedule(ch *channel) {
	if ch.earlier != nil {
		return
	}
	lv := c.level(ch)
	if !ch.inResendQueue && ch.resend.len() > 0 {
		ch.inResendQueue = true
		lv.resend.push(ch)
	}
	if !ch.inFreshQueue && ch.hasFresh() {
		ch.inFreshQueue = true
		lv.fresh.push(ch)
	}
}

// A cork holds back new messages of play from Cork(true) to Cork(false), except while it is
// flushing.
type cork struct {
	on bool
	// Set by Flush, and by a Cork(true) while messages of an earlier tick are queued. It is
	// cleared when nothing more can be sent.
	flushing bool
	since    time.Duration
}

// open reports whether new messages may be sent.
func (k *cork) open() bool { return !k.on || k.flushing }

// Cork holds back new messages of play from Cork(true) to Cork(false), so that a tick is
// sent in few full packets.
//
// A long tick does not hold up the peer: due acks, resends, probes and bulk are still sent,
// and a higher limit is sent after Config.AckDelay.
//
// Messages of an earlier tick are sent as well, and so are messages queued before those
// have been sent. Such messages exist if ticks take longer than their interval: a tick then
// begins before the carrier was able to send the last one.
func (c *Conn) Cork(on bool) {
	c.changed = c.changed || c.cork.on && !on && (c.unsent(len(c.levels)) || c.flow.update)
	if on && !c.cork.on {
		c.cork.since = c.now
		c.saturation.beginTick(c.now, c.unreliables.messages-c.saturation.deferred)
		c.countTick()
	}
	if !on {
		c.saturation.newUnreliable, c.saturation.newBytes = 0, volume{}
	}
	c.cork.flushing = on && (c.cork.flushing || !c.cork.on && c.unsent(bulkLevel))
	c.cork.on = on
}

// Flush allows everything that is queued now to be sent, even if the connection is corked.
func (c *Conn) Flush() {
	c.cork.flushing = c.cork.on
	c.changed = true
}

// QueueTime estimates the time needed to send the queued bytes of a channel and those that
// precede them. It divides their number by the delivery rate, or by Config.Rate if that is
// lower. It returns 0 while no rate is known.
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
			bytes += c.tracked.bytes
		}
		bytes += lv.queued
		if lv == own {
			break
		}
	}
	return time.Duration(float64(bytes) / rate * float64(time.Second))
}

// rate returns the rate in bytes per second at which a backlog would be sent, or 0 if it is
// unknown.
func (c *Conn) rate() float64 {
	rate := c.gate.Estimate()
	if c.path.Fates {
		rate = c.path.Rate
	}
	if limit := float64(c.config.Rate); limit > 0 && (rate == 0 || limit < rate) {
		return limit
	}
	return rate
}

// Watch requests a single Wake for when a channel has drained: fewer than out entries of
// its reliable buffer are in use and its QueueTime is at most queued, or no entry is in
// use.
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

// checkWatches fires the watches whose channels have drained enough.
func (c *Conn) checkWatches() {
	c.watched = slices.DeleteFunc(c.watched, func(ch *channel) bool {
		out := ch.outstanding()
		ch.watch.armed = out > 0 && (out >= ch.watch.out || c.QueueTime(ch.number) > ch.watch.queued)
		c.wake = c.wake || !ch.watch.armed
		return !ch.watch.armed
	})
}

// After holds back all messages of the channel number until the peer has acknowledged
// everything on earlier, including its close. The peer therefore receives everything on
// earlier first. This is the only ordering between channels, and it costs a round trip.
//
// earlier must be closed at this end, and nothing may have been sent on number. If
// everything on earlier is already acknowledged, After does nothing.
func (c *Conn) After(number, earlier uint64) error {
	if c.err != nil {
		return c.err
	}
	ch, before := c.channels.find(number), c.channels.find(earlier)
	switch {
	case ch == nil:
		return c.closedError(number)
	case before == nil || before.outClosed && before.first == before.next:
		return nil
	case !before.outClosed || before.later != nil:
		return fmt.Errorf("bunch: channel %d cannot come after channel %d, which is not closed, or another one comes after",
			number, earlier)
	case ch.earlier != nil:
		return fmt.Errorf("bunch: channel %d cannot come after channel %d: it comes after channel %d",
			number, earlier, ch.earlier.number)
	case ch.next > 0 || ch.unreliable.len() > 0:
		return fmt.Errorf("bunch: channel %d cannot come after channel %d: something was sent on it",
			number, earlier)
	}
	ch.earlier = before
	before.later = ch
	return nil
}

// releaseLater lets the channel that comes after ch send once all of ch is acknowledged.
func (c *Conn) releaseLater(ch *channel) {
	later := ch.later
	if later == nil || ch.first < ch.next {
		return
	}
	c.level(later).deferred -= later.queuedBytes
	ch.later = nil
	later.earlier = nil
	c.saturation.deferred -= later.unreliable.len()
	c.schedule(later)
	c.changed = true
}
