package bunch

import (
	"fmt"
	"time"
)

// Tracked messages contain state that their owner composes at each tick. Only the newest
// value counts, so no message is sent twice. For each message, the owner learns once
// whether it is kept: whether the peer's machine has acknowledged it. Instead of a lost
// message, the owner sends the current values.
//
// The ack of a packet means that all messages in it were kept. That holds on channels whose
// opening message was acknowledged. There the peer drops a message only if it has no memory
// for it, and then remembers that it did ([Conn.Missed]).
//
// A message that is sent earlier may overtake the opening message. The peer then drops it
// although it counts as kept, so its owner must send its content again.

// A Fate is the fate of a message from [Conn.SendTracked].
type Fate struct {
	Record uint64 // the argument of SendTracked
	Kept   bool   // the peer's machine has the message; if false, it may still have it
	Back   bool   // the message was not sent: TakeBack or Unsent has taken it back
}

// tracked holds the queued tracked messages and the fates of sent ones. The records of
// messages in flight are in packet.records.
type tracked struct {
	waiting queue[trackedMessage] // messages that were never sent
	bytes   int                   // of the bunches of waiting
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
	payload []byte // from the connection's blocks
	at      time.Duration
}

// size returns the size of the message's bunch in bytes.
func (t *trackedMessage) size() int {
	return trackedHeader(t.channel.number, len(t.payload)) + len(t.payload)
}

// SendTracked queues a message of at most EntryBytes. It copies payload. The message is
// sent whole, at most once, and after everything except bulk.
//
// If SendTracked returns nil, [Conn.Fates] will report record once. The message is kept if
// its packet was acknowledged. It is lost if its packet is declared lost, whatever an ack
// says later, or if the message was not sent. A message is not sent if it was taken back,
// its channel was closed, it became stale in an outage, or more than 256 KiB of messages
// were queued.
//
// The channel must be one of this side whose open was sent ([Conn.Opening]). Kept is
// reliable only once [Conn.Opened] returns true. If SendTracked returns an error, nothing
// has changed.
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

// Opened reports whether the peer keeps the tracked messages of a channel. It does if this
// side has opened the channel and not closed it, and the peer has acknowledged all of the
// message that opened it. The peer then drops nothing that follows.
func (c *Conn) Opened(number uint64) bool {
	ch := c.channels.find(number)
	return ch != nil && ch.ours && ch.openAcked && !ch.outClosed
}

// Opening reports whether all reliable messages on a channel of this side were sent but the
// peer has not acknowledged its open. If no packet is lost or overtaken, the channel is
// open at the peer when a tracked message arrives.
func (c *Conn) Opening(number uint64) bool {
	ch := c.channels.find(number)
	return ch != nil && ch.opening()
}

// TakeBack drops the tracked messages that were not sent. Fates reports them with Back. An
// owner that calls TakeBack before it composes new messages sends no old values and does
// not let them queue up.
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

// Fates moves fates of tracked messages to into, in the order in which they became known,
// and returns their number. New fates do not cause a Wake.
func (c *Conn) Fates(into []Fate) (n int) {
	for ; n < len(into) && c.tracked.fates.len() > 0; n++ {
		into[n] = c.tracked.fates.pop()
	}
	return n
}

// Missed reports, once, that the peer's tracked messages were dropped because too many were
// waiting here. The peer assumes that they were kept, so the owner must ask it for all of
// its state.
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
func (c *Conn) trackedReady() bool { return c.tracked.waiting.len() > 0 && !c.saturation.held }

// fillTracked places the oldest messages, as many as fit.
func (c *Conn) fillTracked() {
	for c.trackedReady() && !c.build.full() {
		t := c.tracked.waiting.peek()
		if t.at < c.saturation.stale {
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
