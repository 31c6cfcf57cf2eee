package bunch

import (
	"fmt"
	"time"
)

// Tracked messages carry state that their owner rebuilds at each tick. Only the newest
// values matter, so a lost message is never sent again; the owner sends the current values
// instead. The owner is told once for each message whether the peer has acknowledged it:
// whether it is kept.
//
// Once the open of a channel is acknowledged, an ack for a packet means that the peer kept
// every tracked message in it. There is one exception: a peer that runs out of memory drops
// the message, and its owner learns that from [Conn.Missed].
//
// A message that is sent before then may arrive ahead of the open. The peer drops it
// although it acknowledges its packet, so the owner must send that state again.

// A Fate is the fate of a message from [Conn.SendTracked].
type Fate struct {
	Record uint64 // as passed to SendTracked
	Kept   bool   // the peer has acknowledged the message; false does not prove that it was lost
	Back   bool   // TakeBack, or Unsent for its packet, withdrew the message before it was sent
}

// tracked holds the queued tracked messages and the fates of sent ones. The records of
// messages in flight are in packet.records.
type tracked struct {
	waiting queue[trackedMessage] // messages that were never sent
	bytes   int                   // total size of waiting, with bunch headers
	fates   queue[Fate]           // not fetched by the owner yet
	missed  bool                  // an arriving message was dropped for lack of room; for Missed
}

// release frees the memory of empty lists.
func (t *tracked) release() {
	t.waiting.release()
	t.fates.release()
}

// A trackedMessage is a queued message.
type trackedMessage struct {
	channel *channel
	record  uint64
	payload []byte        // allocated from Conn.blocks
	at      time.Duration // when it was queued
}

// size returns the size of the message's bunch in bytes.
func (t *trackedMessage) size() int {
	return trackedHeader(t.channel.number, len(t.payload)) + len(t.payload)
}

// SendTracked queues a message of at most EntryBytes and [Config].MaxBunch. It copies
// payload. The message is sent in one packet, at most once, and after all other traffic
// except bulk.
//
// If SendTracked returns nil, [Conn.Fates] will report record exactly once: kept if its
// packet is acknowledged, otherwise lost. An ack that arrives after the packet was declared
// lost does not change that. A message is reported lost without being sent if
//
//   - it is taken back (see [Conn.TakeBack]),
//   - its channel is closed,
//   - it becomes stale in an outage, or
//   - more than 256 KiB of messages are queued.
//
// This side must have opened the channel, and the open must have been sent (see
// [Conn.Opening]). Kept is reliable only once [Conn.Opened] returns true. If SendTracked
// returns an error, the message was not queued and no fate will be reported.
func (c *Conn) SendTracked(number, record uint64, payload []byte) error {
	if c.err != nil {
		return c.err
	}
	if limit := min(EntryBytes, c.limits.MaxBunch); len(payload) > limit {
		return fmt.Errorf("%w: %d tracked bytes on channel %d, at most %d",
			ErrBunchTooLarge, len(payload), number, limit)
	}
	ch := c.channels.find(number)
	switch {
	case ch == nil || ch.outClosed:
		return c.closedError(number)
	case !ch.ours || !ch.openAcked && !ch.opening():
		return fmt.Errorf("bunch: channel %d takes no tracked messages: the peer opened it, or its open has not left",
			number)
	}

	t := trackedMessage{channel: ch, record: record, payload: payload, at: c.now}
	if unreliablePrice(c.tracked.waiting.len()+1, c.tracked.bytes+t.size()) > maxUnreliable {
		c.stats.DroppedTracked++
		c.tell(record, false)
		return nil
	}
	t.payload = append(c.blocks.get(len(payload)), payload...)
	c.changed = c.changed || !c.cork.on
	c.tracked.bytes += t.size()
	c.tracked.waiting.push(t)
	return nil
}

// Opened reports whether the peer has acknowledged the whole open of a channel that this
// side opened and has not closed. From then on the peer does not drop tracked messages for
// arriving before the open.
func (c *Conn) Opened(number uint64) bool {
	ch := c.channels.find(number)
	return ch != nil && ch.ours && ch.openAcked && !ch.outClosed
}

// Opening reports whether all reliable messages on a channel that this side opened were
// sent, but the peer has not acknowledged the open yet. If no packet is lost or overtaken,
// the channel is open at the peer when a tracked message arrives.
func (c *Conn) Opening(number uint64) bool {
	ch := c.channels.find(number)
	return ch != nil && ch.opening()
}

// TakeBack drops the tracked messages that were not sent. Fates reports them with Back.
// Call it before composing new messages, so that stale ones are neither sent nor pile up.
func (c *Conn) TakeBack() {
	for c.tracked.waiting.len() > 0 {
		t := c.unqueue()
		c.blocks.put(t.payload)
		c.tracked.fates.push(Fate{Record: t.record, Back: true})
	}
}

// TrackedQueued returns the number of bytes of queued tracked messages, including their
// bunch headers.
func (c *Conn) TrackedQueued() int { return c.tracked.bytes }

// Fates fills into with the oldest fates that it has not reported yet, and returns how many
// there were. New fates do not cause a Wake.
func (c *Conn) Fates(into []Fate) (n int) {
	for ; n < len(into) && c.tracked.fates.len() > 0; n++ {
		into[n] = c.tracked.fates.pop()
	}
	return n
}

// Missed reports whether tracked messages from the peer were dropped since the last call,
// because too many were waiting here. The peer assumes that they were kept, so the owner
// must ask it for all of its state.
func (c *Conn) Missed() bool { return once(&c.tracked.missed) }

// tell queues the fate of a message for Fates.
func (c *Conn) tell(record uint64, kept bool) {
	c.tracked.fates.push(Fate{Record: record, Kept: kept})
}

// tellAll queues the fate of all tracked messages in a packet.
func (c *Conn) tellAll(p *packet, kept bool) {
	for _, record := range p.records {
		c.tell(record, kept)
	}
}

// unqueue removes and returns the oldest queued message.
func (c *Conn) unqueue() trackedMessage {
	t := c.tracked.waiting.pop()
	c.tracked.bytes -= t.size()
	return t
}

// dropTracked drops a message that its owner did not take back.
func (c *Conn) dropTracked(t trackedMessage) {
	c.stats.DroppedTracked++
	c.blocks.put(t.payload)
	c.tell(t.record, false)
}

// closeTracked drops the queued messages of a channel, because nothing follows its close.
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

// trackedReady reports whether tracked messages are queued and the owner does not hold them
// back. They are sent only if freshAllowed permits it as well.
func (c *Conn) trackedReady() bool {
	return c.tracked.waiting.len() > 0 && !c.saturation.holdUnreliable
}

// fillTracked places the oldest messages, as many as fit.
func (c *Conn) fillTracked() {
	for c.trackedReady() && !c.build.full() {
		t := c.tracked.waiting.peek()
		if t.at < c.saturation.staleBefore {
			c.dropTracked(c.unqueue())
			continue
		}
		if t.size() > c.build.room() {
			return
		}
		c.placeTracked(c.unqueue())
	}
}

// placeTracked adds a message to the packet, and its record to the packet's record.
func (c *Conn) placeTracked(t trackedMessage) {
	c.add(header{flags: trackedFlags, channel: t.channel.number}, t.payload, 0, false)
	c.build.packet.records = append(c.build.packet.records, t.record)
	c.blocks.put(t.payload)
}

// receiveTracked handles a tracked bunch in packet number. It delivers messages as they
// arrive, including overtaken ones, because each may contain the newest value of something.
// The owner compares Message.Number.
func (c *Conn) receiveTracked(ch *channel, number uint64, payload []byte, size int) error {
	if !ch.opened {
		c.stats.DroppedBeforeOpen++
		return nil
	}
	if len(payload) > c.limits.MaxBunch {
		return violation(PartialTooLarge, "channel %d: a message of %d bytes, at most %d (MaxBunch)",
			ch.number, len(payload), c.limits.MaxBunch)
	}
	if !c.deliverUnreliable(ch, Message{Delivery: Tracked, Number: number, Payload: payload}, size) {
		c.stats.DroppedTracked++
		c.tracked.missed = true
	}
	return nil
}
