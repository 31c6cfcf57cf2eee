package bunch

import (
	"fmt"
	"time"
)

// Tracked messages carry state that their owner composes anew at each tick. The newest value counts, so nothing of an old one
// leaves again: instead the owner is told of each message, once, whether the peer's machine has it, and sends what is missing
// with values of then. A packet's ack tells that of all in it. It is true on channels whose opening message was acknowledged: there
// the peer drops none but for lack of memory, which it remembers ([Conn.Missed]). One that leaves before that may overtake the open,
// is dropped then, and counts as kept all the same: its owner sends what was in it again.

// Fate tells what became of a message of [Conn.SendTracked].
type Fate struct {
	Record uint64 // as SendTracked was given it
	Kept   bool   // the peer's machine has it; else nobody knows, or it never left
}

// tracked is what is kept of tracked messages beside the records in sent packets.
type tracked struct {
	waiting queue[trackedMessage] // never sent
	bytes   int                   // of their bunches
	fates   queue[Fate]           // not fetched
	missed  bool                  // one that arrived was dropped
}

// release lets the collector have the lists that are empty.
func (t *tracked) release() {
	t.waiting.release()
	t.fates.release()
}

// trackedMessage is one that waits, or one of the last packet that may yet be taken back.
type trackedMessage struct {
	channel *channel
	record  uint64
	payload []byte // from the connection's blocks
	at      time.Duration
}

// size is that of its bunch.
func (m *trackedMessage) size() int {
	return trackedHeader(m.channel.number, len(m.payload)) + len(m.payload)
}

// SendTracked queues a message of at most EntryBytes that leaves at most once, whole, behind all but bulk; payload is copied.
// Unless it returns an error, [Conn.Fates] tells record once: kept when the packet that brought it was acknowledged; lost when
// that counts as lost, whatever an ack says later, or when the message did not leave: taken back, closed with its channel,
// stale after an outage, or more than 256 KiB of them waiting. It takes channels of this side whose open has left ([Conn.Opening]),
// but kept is a promise only from [Conn.Opened] on; for others, and for ErrBunchTooLarge and ErrClosed, nothing changes.
func (c *Conn) SendTracked(number, record uint64, payload []byte) error {
	if c.err != nil {
		return c.err
	}
	if most := min(EntryBytes, c.limits.MaxBunch); len(payload) > most {
		return fmt.Errorf("%w: %d tracked bytes on channel %d, at most %d", ErrBunchTooLarge, len(payload), number, most)
	}
	ch := c.channels.open[number]
	switch {
	case ch == nil || ch.outClosed:
		return c.closedError(number)
	case !ch.ours || !ch.openAcked && !ch.opening():
		return fmt.Errorf("bunch: channel %d takes no tracked messages: the peer opened it, or its open has not left", number)
	}
	m := trackedMessage{channel: ch, record: record, payload: payload, at: c.now}
	if unreliablePrice(c.tracked.waiting.len()+1, c.tracked.bytes+m.size()) > maxUnreliable {
		c.stats.DroppedTracked++
		c.tell(record, false)
		return nil
	}
	m.payload = append(c.blocks.get(len(payload)), payload...)
	c.changed = c.changed || !c.corked
	c.tracked.bytes += m.size()
	c.tracked.waiting.push(m)
	return nil
}

// Opened reports whether the peer keeps the tracked messages of a channel: this side opened it and has not closed it, and the peer has
// acknowledged all of the message that opened it, so that it drops nothing that follows.
func (c *Conn) Opened(number uint64) bool {
	ch := c.channels.open[number]
	return ch != nil && ch.ours && ch.openAcked && !ch.outClosed
}

// Opening reports whether all that was sent reliably on a channel of this side has left, and the peer has not acknowledged its open: a
// tracked message finds it there if nothing is lost or overtaken.
func (c *Conn) Opening(number uint64) bool {
	ch := c.channels.open[number]
	return ch != nil && ch.opening()
}

func (ch *channel) opening() bool {
	return ch.ours && !ch.openAcked && !ch.outClosed && ch.next > 0 && ch.fresh == ch.next
}

// TakeBack gives up the tracked messages that have not left: they are told lost. An owner that does it before it composes anew
// sends no old values, and none of them stand.
func (c *Conn) TakeBack() {
	for c.tracked.waiting.len() > 0 {
		c.giveUp(c.unqueue())
	}
}

// TrackedQueued returns how many bytes of tracked messages wait, their bunch headers included.
func (c *Conn) TrackedQueued() int { return c.tracked.bytes }

// RecentRTT returns the least of the latest round trips, at least 8 of them, the least ever, and how often the first was found: 0
// while it is not known. A queue that stands shows in the first, and jitter does not.
func (c *Conn) RecentRTT() (recent, least time.Duration, rounds int) {
	return c.gate.Recent, c.gate.Least, c.gate.Rounds
}

// Fates moves at most len(into) fates of tracked messages, in the order in which they became known, and returns how many. New
// ones wake nobody.
func (c *Conn) Fates(into []Fate) (n int) {
	for ; n < len(into) && c.tracked.fates.len() > 0; n++ {
		into[n] = c.tracked.fates.pop()
	}
	return n
}

// Missed reports, once, that tracked messages were dropped that waited here beyond the limit, while the peer believes them
// kept: it has to be asked for all of its state.
func (c *Conn) Missed() bool {
	missed := c.tracked.missed
	c.tracked.missed = false
	return missed
}

func (c *Conn) tell(record uint64, kept bool) {
	c.tracked.fates.push(Fate{Record: record, Kept: kept})
}

// tellAll tells the fate of all tracked messages of a packet.
func (c *Conn) tellAll(p *packet, kept bool) {
	for _, record := range p.records {
		c.tell(record, kept)
	}
}

// unqueue takes out the oldest message that waits.
func (c *Conn) unqueue() trackedMessage {
	m := c.tracked.waiting.pop()
	c.tracked.bytes -= m.size()
	return m
}

// giveUp tells a message lost that will not leave.
func (c *Conn) giveUp(m trackedMessage) {
	c.blocks.put(m.payload)
	c.tell(m.record, false)
}

// dropTracked gives up a message that its owner did not take back.
func (c *Conn) dropTracked(m trackedMessage) {
	c.stats.DroppedTracked++
	c.giveUp(m)
}

// closeTracked drops what waits of a channel: nothing follows its close.
func (c *Conn) closeTracked(ch *channel) {
	c.tracked.waiting.remove(func(m trackedMessage) bool {
		if m.channel != ch {
			return false
		}
		c.tracked.bytes -= m.size()
		c.dropTracked(m)
		return true
	})
}

// trackedReady reports whether tracked messages may leave but for what holds all that was never sent.
func (c *Conn) trackedReady() bool { return c.tracked.waiting.len() > 0 && !c.saturation.held }

// fillTracked places the oldest messages, as many as fit.
func (c *Conn) fillTracked() {
	for c.trackedReady() && !c.build.full() {
		m := c.tracked.waiting.peek()
		if m.at < c.saturation.stale {
			c.dropTracked(c.unqueue())
			continue
		}
		if m.size() > c.build.room() {
			return
		}
		c.placeTracked(c.unqueue())
	}
}

func (c *Conn) placeTracked(m trackedMessage) {
	b := &c.build
	b.buf = appendBunch(b.buf, header{flags: trackedFlags, channel: m.channel.number}, m.payload)
	b.bunches++
	b.packet.records = append(b.packet.records, m.record)
	c.undo.tracked = append(c.undo.tracked, m)
	c.stats.BunchesSent++
	c.stats.PayloadSent += uint64(len(m.payload))
	if c.traced() {
		c.trace(Event{Kind: "bunch", Channel: m.channel.number, Bytes: len(m.payload), Delivery: Tracked})
	}
}

// unsendTracked puts the tracked messages of a packet that never left back to the head, unless their channel closed meanwhile.
func (c *Conn) unsendTracked() {
	for i := len(c.undo.tracked) - 1; i >= 0; i-- {
		m := c.undo.tracked[i]
		c.stats.BunchesSent--
		c.stats.PayloadSent -= uint64(len(m.payload))
		if m.channel.outClosed {
			c.dropTracked(m)
			continue
		}
		c.tracked.bytes += m.size()
		c.tracked.waiting.unpop(m)
	}
	clear(c.undo.tracked)
	c.undo.tracked = c.undo.tracked[:0]
}

// settleTracked releases what unsendTracked would have needed.
func (c *Conn) settleTracked() {
	for i, m := range c.undo.tracked {
		c.blocks.put(m.payload)
		c.undo.tracked[i] = trackedMessage{}
	}
	c.undo.tracked = c.undo.tracked[:0]
}

// mayTrack refuses a tracked bunch on a channel that the peer did not open: state has one direction.
func (c *Conn) mayTrack(number uint64) error {
	if number == 0 || c.channels.isOurs(number) {
		return violation(BunchBadChannelIndex, "a tracked bunch on channel %d, which the peer did not open", number)
	}
	return nil
}

// receiveTracked takes a tracked bunch of the packet with a number. They are handed out as they come; their owner compares
// numbers, for of two messages each may hold the newest value of something.
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
