package bunch

import (
	"errors"
	"fmt"
	"time"
)

// A Fate says what became of a message that was passed to [Conn.SendTracked].
type Fate struct {
	Record uint64 // as passed to SendTracked
	Kept   bool   // the peer acknowledged the message; if false, it may have arrived nevertheless
	Back   bool   // the message was taken back by TakeBack or Unsent before it was sent
}

// tracked holds the tracked messages that are queued, and the fates of those that were sent.
// In between, all we know of a message is its record in sentPacket.tracked.
//
// Tracked messages carry state that their owner rebuilds at each tick. Since only the latest
// values matter, a lost message is never retransmitted. Instead, we tell the owner once for each
// message whether the peer has acknowledged it and thus kept it. If the message was lost, the
// owner sends the current values.
//
// An ack of a packet means that the peer has kept every tracked message in it, with two
// exceptions. First, a peer that has no room for a message drops it, and the peer's owner
// learns about that from [Conn.Missed]. Second, until the channel's open is acknowledged, a
// message may overtake the open and be dropped, so its state has to be sent again later.
type tracked struct {
	waiting queue[trackedMessage] // messages that were never sent
	bytes   int                   // size of the bunches that waiting will take, headers included
	fates   queue[Fate]           // for Fates
	missed  bool                  // a message from the peer was dropped for lack of room
}

// hasSpare reports whether there's memory for release to free.
func (t *tracked) hasSpare() bool { return t.waiting.hasSpare() || t.fates.hasSpare() }

// release frees the memory of queues that are empty.
func (t *tracked) release() {
	t.waiting.release()
	t.fates.release()
}

// A trackedMessage is a tracked message that was never sent.
type trackedMessage struct {
	channel *channel
	record  uint64
	payload []byte        // in a pooled block
	at      time.Duration // when it was queued
}

// size returns the size in bytes of the bunch that carries the message.
func (t *trackedMessage) size() int {
	return trackedHeader(t.channel.number, len(t.payload)) + len(t.payload)
}

// SendTracked queues a message of at most EntryBytes and [Config].MaxBunch bytes, and copies
// payload. The message is sent at most once, in a single packet, and after everything except bulk.
//
// If SendTracked returns nil, [Conn.Fates] will report record exactly once: as kept if the packet
// is acknowledged, and otherwise as lost. An ack that arrives after the packet was declared lost
// does not change the fate. A message is reported as lost without having been sent if
//
//   - it is taken back (see [Conn.TakeBack]),
//   - its channel is closed,
//   - it becomes stale in an outage, or
//   - more than 256 KiB of messages are queued.
//
// The channel must have been opened by this side, and its open must have been sent (see
// [Conn.Opening]). Before [Conn.Opened] returns true, a message reported as kept may
// nevertheless have been dropped by the peer. If SendTracked returns an error, the message was
// not queued, and no fate will be reported.
func (c *Conn) SendTracked(number, record uint64, payload []byte) error {
	if c.err != nil {
		return c.err
	}
	if limit := min(EntryBytes, c.limits.MaxBunch); len(payload) > limit {
		return fmt.Errorf("%w: %d bytes of a tracked message on channel %d; the limit is %d",
			ErrBunchTooLarge, len(payload), number, limit)
	}
	ch := c.channels.find(number)
	switch {
	case ch == nil || ch.outClosed:
		return c.closedError(number)
	case number == 0:
		return errors.New("bunch: channel 0 does not accept tracked messages, because it is for control messages")
	case !ch.ours:
		return fmt.Errorf("bunch: channel %d does not accept tracked messages, because the peer opened it", number)
	case !ch.openAcked && !ch.opening():
		return fmt.Errorf("bunch: channel %d does not accept tracked messages until its open has been sent", number)
	}

	t := trackedMessage{channel: ch, record: record, payload: payload, at: c.now}
	if unreliableCost(c.tracked.waiting.len()+1, c.tracked.bytes+t.size()) > maxUnreliable {
		// Treat the message as lost. The owner may send a newer one later.
		c.stats.DroppedTracked++
		c.queueFate(record, false)
		return nil
	}
	t.payload = append(c.blocks.get(len(payload)), payload...)
	c.changed = c.changed || !c.cork.on
	c.tracked.bytes += t.size()
	c.tracked.waiting.push(t)
	return nil
}

// Opened reports whether the peer has acknowledged the whole message that opens a channel of
// ours, and we have not closed the channel. Once Opened returns true, no tracked message is
// dropped for arriving before the open.
func (c *Conn) Opened(number uint64) bool {
	ch := c.channels.find(number)
	return ch != nil && ch.ours && ch.openAcked && !ch.outClosed
}

// Opening reports whether we have sent everything reliable on a channel of ours, but the peer
// has not acknowledged the open yet. A tracked message sent now arrives after the open, unless
// packets are lost or reordered.
func (c *Conn) Opening(number uint64) bool {
	ch := c.channels.find(number)
	return ch != nil && ch.opening()
}

// TakeBack drops the tracked messages that have not been sent. Fates reports them with Back. An
// owner that calls TakeBack before it composes new messages never sends stale ones, and keeps the
// queue from growing.
func (c *Conn) TakeBack() {
	for c.tracked.waiting.len() > 0 {
		t := c.unqueue()
		c.blocks.put(t.payload)
		c.tracked.fates.push(Fate{Record: t.record, Back: true})
	}
}

// TrackedQueued returns the number of bytes that the queued tracked messages will take,
// bunch headers included.
func (c *Conn) TrackedQueued() int { return c.tracked.bytes }

// Fates fills into with the oldest fates that have not been reported yet, and returns their
// number. New fates do not cause a Wake.
func (c *Conn) Fates(into []Fate) (n int) {
	for ; n < len(into) && c.tracked.fates.len() > 0; n++ {
		into[n] = c.tracked.fates.pop()
	}
	return n
}

// Missed reports whether tracked messages from the peer were dropped since the last call, because
// too many were waiting at this end. Since the peer believes that the messages were kept, the owner
// has to ask the peer for its whole state.
func (c *Conn) Missed() bool { return testAndClear(&c.tracked.missed) }

// queueFate queues the fate of a message for Fates.
func (c *Conn) queueFate(record uint64, kept bool) {
	c.tracked.fates.push(Fate{Record: record, Kept: kept})
}

// queueFates queues the fates of the tracked messages in a packet for Fates.
func (c *Conn) queueFates(p *sentPacket, kept bool) {
	for _, record := range p.tracked {
		c.queueFate(record, kept)
	}
}

// unqueue removes the oldest message from the queue and returns it.
func (c *Conn) unqueue() trackedMessage {
	t := c.tracked.waiting.pop()
	c.tracked.bytes -= t.size()
	return t
}

// dropTracked drops a message that won't be sent, and reports it as lost.
func (c *Conn) dropTracked(t trackedMessage) {
	c.stats.DroppedTracked++
	c.blocks.put(t.payload)
	c.queueFate(t.record, false)
}

// closeTracked drops the messages queued for a channel, since nothing may follow its close.
func (c *Conn) closeTracked(ch *channel) {
	c.tracked.waiting.remove(func(t trackedMessage) bool {
		if t.channel != ch {
			return false
		}
		c.tracked.bytes -= t.size()
		c.dropTracked(t)
		return true
	})
}

// trackedReady reports whether there are tracked messages that the owner doesn't hold back. Whether
// they may be sent also depends on the packet's allowance.
func (c *Conn) trackedReady() bool {
	return c.tracked.waiting.len() > 0 && !c.holdUnreliable
}

// fillTracked adds as many tracked messages to the packet as fit, oldest first.
func (c *Conn) fillTracked() {
	for c.trackedReady() && !c.build.full() {
		t := c.tracked.waiting.peek()
		if t.at < c.expiry.outageBefore {
			// The message waited through an outage, so the owner must have newer values.
			c.dropTracked(c.unqueue())
			continue
		}
		if t.size() > c.build.room() {
			return
		}
		c.placeTracked(c.unqueue())
	}
}

// placeTracked adds a message to the packet, and notes it in the packet's record.
func (c *Conn) placeTracked(t trackedMessage) {
	c.addBunch(header{flags: trackedFlags, channel: t.channel.number}, t.payload, 0, false)
	c.build.record.tracked = append(c.build.record.tracked, t.record)
	c.blocks.put(t.payload)
}

// receiveTracked handles a tracked bunch. number is the number of the packet that carried it.
//
// Messages are delivered as they arrive, even if a newer message has overtaken them, because each
// may have the latest value of something. The owner has to compare their Message.Number.
func (c *Conn) receiveTracked(ch *channel, number uint64, payload []byte, size int) error {
	if !ch.opened {
		c.stats.DroppedBeforeOpen++
		return nil
	}
	if len(payload) > c.limits.MaxBunch {
		return tooLarge(ch.number, len(payload), c.limits.MaxBunch)
	}
	if !c.deliverUnreliable(ch, Message{Delivery: Tracked, Number: number, Payload: payload}, size) {
		c.stats.DroppedTracked++
		c.tracked.missed = true
	}
	return nil
}
