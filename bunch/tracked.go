package bunch

import (
	"fmt"
	"time"
)

// Tracked messages carry state that their owner composes anew at each tick. Only the newest value counts, so no message leaves twice:
// the owner is told once of each whether the peer's machine has it, and sends missing values as they are then. The ack of a
// packet says that all messages in it were kept. That is true on channels whose opening message was acknowledged: there the peer
// drops a message only for lack of memory, and remembers that it did ([Conn.Missed]). A message that leaves earlier may overtake the
// open; the peer drops it then, yet it counts as kept, so its owner must send what was in it again.

// Fate tells what became of a message of [Conn.SendTracked].
type Fate struct {
	Record uint64 // the argument of SendTracked
	Kept   bool   // the peer's machine has the message; else it may have, or the message never left
	Back   bool   // the message did not leave: TakeBack or Unsent has taken it back
}

// tracked holds the tracked messages that wait, and the fates of those that left. Those in flight are in packet.records.
type tracked struct {
	waiting queue[trackedMessage] // messages that were never sent
	bytes   int                   // of the bunches of waiting
	fates   queue[Fate]           // fates that the owner has not fetched
	missed  bool                  // a message that arrived was dropped because too many waited; for Missed
}

// release lets the collector have the lists that are empty.
func (t *tracked) release() {
	t.waiting.release()
	t.fates.release()
}

// trackedMessage is a message that waits.
type trackedMessage struct {
	channel *channel
	record  uint64
	payload []byte // from the connection's blocks
	at      time.Duration
}

// size returns how many bytes the message's bunch takes.
func (t *trackedMessage) size() int {
	return trackedHeader(t.channel.number, len(t.payload)) + len(t.payload)
}

// SendTracked queues a message of at most EntryBytes that leaves at most once, whole, behind all but bulk; payload is copied.
// Unless it returns an error, [Conn.Fates] tells record once: kept when the packet that brought it was acknowledged; lost when
// that packet counts as lost, whatever an ack says later, or when the message did not leave: taken back, closed with its channel,
// stale after an outage, or more than 256 KiB of them waiting. The channel must be one of this side whose open has left ([Conn.Opening]);
// kept is a promise only from [Conn.Opened] on. After an error nothing has changed.
func (c *Conn) SendTracked(number, record uint64, payload []byte) error {
	if c.err != nil {
		return c.err
	}
	if most := min(EntryBytes, c.limits.MaxBunch); len(payload) > most {
		return fmt.Errorf("%w: %d tracked bytes on channel %d, at most %d", ErrBunchTooLarge, len(payload), number, most)
	}
	ch := c.channels.find(number)
	switch {
	case ch == nil || ch.outClosed:
		return c.closedError(number)
	case !ch.ours || !ch.openAcked && !ch.opening():
		return fmt.Errorf("bunch: channel %d takes no tracked messages: the peer opened it, or its open has not left", number)
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

// Opened reports whether the peer keeps the tracked messages of a channel: this side opened it and has not closed it, and the peer has
// acknowledged all of the message that opened it, so that it drops nothing that follows.
func (c *Conn) Opened(number uint64) bool {
	ch := c.channels.find(number)
	return ch != nil && ch.ours && ch.openAcked && !ch.outClosed
}

// Opening reports whether all reliable messages of a channel of this side have left, and the peer has not acknowledged its open: if no
// packet is lost or overtaken, the channel is open at the peer when a tracked message comes.
func (c *Conn) Opening(number uint64) bool {
	ch := c.channels.find(number)
	return ch != nil && ch.opening()
}

// TakeBack gives up the tracked messages that have not left; Fates tells them lost. An owner that calls it before it composes anew
// sends no old values, and lets none queue up.
func (c *Conn) TakeBack() {
	for c.tracked.waiting.len() > 0 {
		t := c.unqueue()
		c.blocks.put(t.payload)
		c.tracked.fates.push(Fate{Record: t.record, Back: true})
	}
}

// TrackedQueued returns how many bytes of tracked messages wait, their bunch headers included.
func (c *Conn) TrackedQueued() int { return c.tracked.bytes }

// Fates moves at most len(into) fates of tracked messages, in the order in which they became known, and returns how many. New
// ones wake nobody.
func (c *Conn) Fates(into []Fate) (n int) {
	for ; n < len(into) && c.tracked.fates.len() > 0; n++ {
		into[n] = c.tracked.fates.pop()
	}
	return n
}

// Missed reports, once, that tracked messages of the peer were dropped because too many wait here. The peer believes them kept, so the owner
// must ask the peer for all of its state.
func (c *Conn) Missed() bool { return once(&c.tracked.missed) }

// tell queues the fate of a message for Fates.
func (c *Conn) tell(record uint64, kept bool) {
	c.tracked.fates.push(Fate{Record: record, Kept: kept})
}

// tellAll tells the fate of all tracked messages of a packet.
func (c *Conn) tellAll(p *packet, kept bool) {
	for _, record := range p.records {
		c.tell(record, kept)
	}
}

// unqueue removes and returns the oldest message that waits.
func (c *Conn) unqueue() trackedMessage {
	t := c.tracked.waiting.pop()
	c.tracked.bytes -= t.size()
	return t
}

// dropTracked gives up a message that its owner did not take back.
func (c *Conn) dropTracked(t trackedMessage) {
	c.stats.DroppedTracked++
	c.blocks.put(t.payload)
	c.tell(t.record, false)
}

// closeTracked drops the waiting messages of a channel: nothing follows its close.
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

// trackedReady reports whether tracked messages wait and the owner does not hold them. They leave only while freshAllowed is true, too.
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

// placeTracked appends a message to the packet, and its record to the packet's records, for its fate.
func (c *Conn) placeTracked(t trackedMessage) {
	c.add(header{flags: trackedFlags, channel: t.channel.number}, t.payload, 0, false)
	c.build.packet.records = append(c.build.packet.records, t.record)
	c.blocks.put(t.payload)
}

// receiveTracked takes a tracked bunch of packet number. It hands out messages as they come, even overtaken ones, because each may hold the
// newest value of something: the owner compares Message.Number.
func (c *Conn) receiveTracked(ch *channel, number uint64, payload []byte, size int) error {
	if !ch.opened {
		c.stats.DroppedBeforeOpen++
		return nil
	}
	if len(payload) > c.limits.MaxBunch {
		return violation(PartialTooLarge, "channel %d: a message of %d bytes, at most %d (MaxBunch)", ch.number, len(payload), c.limits.MaxBunch)
	}
	if !c.deliverUnreliable(ch, Message{Delivery: Tracked, Number: number, Payload: payload}, size) {
		c.stats.DroppedTracked++
		c.tracked.missed = true
	}
	return nil
}
