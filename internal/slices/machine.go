package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/parity"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// TrimAfter is how long a machine (see Machine) keeps its spare memory after it last sent or
	// received a slice.
	TrimAfter = 10 * time.Second

	// firstUnsent limits the bytes queued while we don't know the path's rate. It's more than
	// QUIC's initial window (RFC 9002, section 7.2), so that the queue doesn't run dry in the first
	// round trip.
	firstUnsent = 64 << 10

	// minUnsent is the number of bytes that may always be queued on a path that reports fates
	// (whether each datagram arrived or was lost), however slow it is. These bytes don't delay play
	// (the game's own traffic), because the carrier sends play first.
	minUnsent = 64 << 10

	// maxAckBytes is the maximum size of a datagram with an ack.
	maxAckBytes = 1 + chunk.Overhead + chunk.MaxSlices/8
)

// AppendPacket numbers each datagram, so that Unsent and Fate can refer to it. A slice gets its
// number from the flight, and the number of an ack is ackNumber plus the ID of its chunk. All
// repair slices share repairNumber, because we never resend them.
const (
	ackNumber    = 1 << 63
	repairNumber = 1 << 62
)

// A Machine is one end of a connection's slice protocol: the state machine that packs messages into
// datagrams and unpacks the peer's. Each datagram holds one packet of package chunk, or a repair
// slice. The machine counts and drops datagrams that it can't parse, but they don't end any
// transfer. Only an ack that the peer made up ends the connection. The machine isn't safe for
// concurrent use, except for Release.
//
// The link drives it through the interface link.Extension. Its owner, a streamer, adds the missing
// method Drained.
type Machine struct {
	protocol byte // first byte of datagrams with slices and acks
	out      outbox
	in       inbox

	// The path.
	path          recovery.Path // set by SetPath
	control       control       // used unless the path reports fates
	repairs       repairMaker   // used if the path reports fates
	sentWithFates uint64        // slices sent on paths that report fates
	ackDue        bool          // Advance found an ack due, so NextTimeout needn't return its time
	oldPath       oldPath       // the path before the last change
	keepTimer     keepTimer     // resends slices that arrived but that the peer never acked

	// For the link.
	held          bool             // slices must wait for the rate or the pacer; set by Hold
	content       recovery.Content // of the newest datagram from AppendPacket
	changed       bool             // returned and cleared by Changed
	newestArrived time.Time        // returned by Arrived

	active time.Time // when a slice was last sent or received; zero once trim has freed memory

	// For the owner.
	noMore    bool          // the owner has no more messages for now; set by SetNoMore
	watching  bool          // a Watch waits until CanSend(watchWait) is true
	watchWait time.Duration // set by Watch
	wake      bool          // returned and cleared by Wake
}

// New returns a machine whose datagrams begin with the byte protocol, except for repair slices.
// Since a machine numbers its chunks from 0, an end can have only one machine per protocol byte.
// Memory that the peer makes the machine hold is charged to account.
func New(protocol byte, account Account) *Machine {
	return &Machine{protocol: protocol, in: newInbox(account, quickAcks)}
}

// Withhold makes the machine withhold a slice now and then, to detect a peer that makes up acks
// (see withholding). random returns a number from 0 to n-1 that the peer can't guess.
func (m *Machine) Withhold(random func(n int) int) { m.out.withheld.random = random }

// Receive handles a datagram from the peer. The datagram still belongs to the caller. An error
// means that the peer acked a slice that we haven't sent, and changes nothing.
func (m *Machine) Receive(now time.Time, datagram []byte) error {
	m.changed = true
	switch {
	case len(datagram) == 0:
		m.in.malformed++
	case datagram[0] == repairByte:
		m.receiveRepair(now, datagram)
	default:
		return m.receiveChunk(now, datagram[1:])
	}
	return nil
}

// receiveChunk handles a packet of package chunk, which is a slice or an ack.
func (m *Machine) receiveChunk(now time.Time, packet []byte) error {
	p, err := config.Parse(packet)
	switch {
	case err != nil:
		m.in.malformed++
	case p.Kind == chunk.KindSlice:
		m.active = now
		if m.in.addSlice(now, p.Slice) {
			m.wake = true
		}
	default:
		return m.receiveAck(now, &p.Ack)
	}
	return nil
}

// receiveRepair handles a repair slice.
func (m *Machine) receiveRepair(now time.Time, datagram []byte) {
	r, ok := parseRepair(datagram)
	if !ok {
		m.in.malformed++
		return
	}
	if m.in.addRepair(now, r) {
		m.wake = true
	}
}

// receiveAck handles an ack, and frees messages that are completely acked. On a path that doesn't
// report fates, an ack also shows which slices were lost and how long the round trip is.
func (m *Machine) receiveAck(now time.Time, a *chunk.Ack) error {
	c, fresh, err := m.out.newlyAcked(a)
	if c == nil {
		// We no longer have this chunk, or the peer lies.
		return err
	}
	if fresh.Count() > 0 {
		m.keepTimer.acked()
	}
	if m.path.Fates {
		m.out.acknowledge(now, c, &fresh)
	} else {
		m.examineAck(now, c, &fresh)
	}
	m.checkWatch()
	return nil
}

// examineAck acknowledges the fresh slices of a chunk on a path that doesn't report fates.
func (m *Machine) examineAck(now time.Time, c *sentChunk, fresh *chunk.Bits) {
	t, id := m.out.since(now), c.id
	// examine has to see the sendings before acknowledge marks them as arrived. learn comes last,
	// because it may look for losses only among the sendings that are still in flight.
	found := m.control.examine(t, &m.out.flight, c, fresh)
	m.out.acknowledge(now, c, fresh)
	if number, ok := found.newestTimed(); ok {
		m.newestArrived = m.out.sentAt(number)
	}
	if found.first {
		m.control.learn(t, &m.out, id, found)
	}
}

// AppendPacket appends the next datagram, of at most size bytes, to buf. Acks have priority over
// slices, and slices over repair slices. ok is false if there is nothing to send now.
func (m *Machine) AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool) {
	if size < maxAckBytes {
		return buf, 0, false
	}
	m.content.Bulk = false
	if a, ok := m.in.nextAck(now); ok {
		m.ackDue = false
		return config.AppendAck(append(buf, m.protocol), a), ackNumber + uint64(a.ChunkID), true
	}
	if size < Datagram {
		return buf, 0, false
	}
	if !m.maySend() {
		if !m.path.Fates && m.pathOpen() {
			// The path could take more, but the connection's rate doesn't allow it.
			m.control.underused(m.InFlight())
		}
		return buf, 0, false
	}
	m.content.Bulk = true
	others := m.InFlight() // without the next slice
	if s, number, ok := m.nextSlice(now); ok {
		m.sliceSent(now, number, others)
		return config.AppendSlice(append(buf, m.protocol), s), number, true
	}
	if m.path.Fates {
		return m.appendRepair(buf)
	}
	m.control.ranDry(others)
	return buf, 0, false
}

// nextSlice takes the next slice to send. A carrier that reports fates knows better than the peer's
// acks what has arrived, so we withhold slices only on other paths.
func (m *Machine) nextSlice(now time.Time) (s chunk.Slice, number uint64, ok bool) {
	s, number, ok = m.out.next(now, !m.path.Fates)
	if !ok && m.noMore && m.out.release() {
		return m.out.next(now, false)
	}
	return s, number, ok
}

// pathOpen reports whether the path can take another slice. On a path that reports fates, it's
// always true, because the carrier limits us by calling Hold.
func (m *Machine) pathOpen() bool { return m.path.Fates || m.control.maySend(&m.out.flight) }

// maySend reports whether a slice may be sent now. Hold doesn't stop probes, which are sent only on
// paths that don't report fates.
func (m *Machine) maySend() bool { return m.pathOpen() && (!m.held || m.control.probes > 0) }

// sliceSent is called when a slice is sent. others is the number of bytes that other
// slices have in flight.
func (m *Machine) sliceSent(now time.Time, number uint64, others int) {
	m.active = now
	if m.path.Fates {
		m.keepTimer.restart(now)
		m.sentWithFates++
	} else {
		m.control.sent(m.out.flight.At(number), others, m.out.unacked)
	}
	m.checkWatch()
}

// appendRepair appends a repair slice. It's called when no other slice is left to send. If the
// owner has more messages, ok is false, because messages are a better use of the path.
func (m *Machine) appendRepair(buf []byte) (packet []byte, number uint64, ok bool) {
	if !m.noMore {
		return buf, 0, false
	}
	r, ok := m.repairs.next(&m.out, parity.Loss(m.path.Loss, m.path.LossOf))
	if !ok {
		return buf, 0, false
	}
	return r.append(buf), repairNumber, true
}

// Unsent is called when a datagram from AppendPacket wasn't sent after all.
func (m *Machine) Unsent(number uint64) { m.requeue(number) }

// requeue makes AppendPacket send the content of a datagram again, unless it was a repair slice.
func (m *Machine) requeue(number uint64) {
	switch {
	case number >= ackNumber:
		m.in.ackAgain(uint16(number))
	case number < repairNumber:
		m.out.lose(number)
	}
}

// Fate is called when the carrier reports the fate of a datagram, that is, whether it arrived. We
// resend a slice or an ack that was lost. We keep even a slice that arrived until the peer acks it,
// because the peer may have had no memory for it (see keepTimer).
func (m *Machine) Fate(now time.Time, number uint64, arrived bool) {
	switch {
	case !arrived:
		m.requeue(number)
	case number < repairNumber:
		m.keepTimer.restart(now)
		m.out.arrive(number)
	}
}

// SetPath tells the machine what is known about the path.
//
// If Epoch or Fates changes, all chunks stay as they are, and what was acked remains acked. The
// peer may still ack slices that are in flight on the old path (see oldPath). If the old path
// reported fates, its carrier continues to report the fates of these slices.
func (m *Machine) SetPath(now time.Time, p recovery.Path) {
	if p.Fates != m.path.Fates || p.Epoch != m.path.Epoch {
		m.changePath(now, p)
	}
	m.path = p
}

// changePath starts over on another path.
func (m *Machine) changePath(now time.Time, p recovery.Path) {
	next := m.out.flight.Next
	m.out.release()
	m.control.restart(m.out.since(now), next)
	m.keepTimer = keepTimer{since: now}
	m.ackDue = false
	m.changed = true
	if !m.path.Fates {
		// If the old path reported fates, oldPath stays as it is, because it may still be waiting
		// for slices sent on an earlier path that didn't.
		m.oldPath = oldPath{below: next, until: now.Add(recovery.Overdue(p.RTT, ackDelay))}
	}
	if p.Fates {
		m.in.acks.pace = rareAcks
	} else {
		m.in.acks.pace = quickAcks
		m.in.ackAllAgain()
	}
}

// SetWindow limits the bytes of slices in flight, unless the path reports fates.
func (m *Machine) SetWindow(bytes int) { m.control.gate.PathWindow = bytes }

// Unmeasured reports whether we don't know the round trip, because the path doesn't report fates
// and no ack of a slice has measured it yet.
func (m *Machine) Unmeasured() bool { return !m.path.Fates && !m.control.gate.Known() }

// Assume sets the round trip and its variance to the values that the connection's other datagrams
// have measured. It has no effect unless the machine is [Machine.Unmeasured]. It doesn't set the
// minimum, because the path may have become longer since that was measured; only slices measure it.
func (m *Machine) Assume(smoothed, variance time.Duration) {
	if m.Unmeasured() {
		m.control.gate.Assume(smoothed, variance)
	}
}

// Advance runs the timers that are due, in the order in which NextTimeout lists them. The one of
// oldPath may declare slices in flight lost, so it runs before control decides whether to probe for
// them. The error, which link.Machine requires, is always nil.
func (m *Machine) Advance(now time.Time) error {
	m.keepTimer.advance(now, &m.out)
	m.oldPath.advance(now, &m.out)
	if m.path.Fates {
		at, ok := m.in.acks.dueAt()
		m.ackDue = ok && !now.Before(at)
	} else {
		m.control.advance(m.out.since(now), &m.out)
		m.checkWatch()
	}
	if at, ok := m.trimAt(); ok && !now.Before(at) {
		m.trim()
	}
	return nil
}

// NextTimeout returns when Advance or AppendPacket must be called next unless something happens
// first. ok is false if no timer is running.
func (m *Machine) NextTimeout() (at time.Time, ok bool) {
	var first recovery.Earliest
	first.Add(m.keepTimer.at(&m.out))
	first.Add(m.oldPath.at())
	at, ok = m.in.acks.dueAt()
	first.Add(at, ok && !m.ackDue)
	if !m.path.Fates {
		next, ok := m.control.nextTimeout(&m.out.flight)
		first.Add(m.out.time(next), ok)
	}
	first.Add(m.trimAt())
	return first.Time()
}

// trimAt returns when to trim. ok is false while messages are waiting for acks, and after a trim
// until a slice is sent or received.
func (m *Machine) trimAt() (at time.Time, ok bool) {
	if m.active.IsZero() || !m.out.idle() {
		return at, false
	}
	return m.active.Add(TrimAfter), true
}

// trim frees spare memory, which we keep only for reuse.
func (m *Machine) trim() {
	m.active = time.Time{}
	m.out.trim()
	m.repairs.trim()
	m.in.trim()
}

// Waiting reports what could be sent if Hold allowed it. There are no unreliable messages, and all
// slices are bulk (the traffic of transfers).
func (m *Machine) Waiting() (unreliable, bulk bool) {
	return false, !m.out.idle() && m.pathOpen()
}

// Hold with bulk set stops slices, but not acks, until the next call with bulk unset. The first
// parameter, which link.Machine requires, is for unreliable data. We have none.
func (m *Machine) Hold(_, bulk bool) { m.held = bulk }

// InFlight returns the number of bytes of slices in flight.
func (m *Machine) InFlight() int { return m.out.flight.bytes }

// Arrived returns when we sent the newest slice that is known to have arrived. It doesn't count
// slices sent on paths that report fates.
func (m *Machine) Arrived() time.Time { return m.newestArrived }

// Lost returns the number of slices that the machine itself has declared lost (RFC 9002, section
// 6.1), not counting losses reported by a carrier.
func (m *Machine) Lost() uint64 { return m.control.lost }

// Wake reports whether, since the last call, a message from the peer became complete or the
// owner's Watch ended. The call resets it.
func (m *Machine) Wake() bool {
	wake := m.wake
	m.wake = false
	return wake
}

// Changed reports whether, since the last call, something happened that may give AppendPacket a
// datagram to send. The call resets it.
func (m *Machine) Changed() bool {
	changed := m.changed
	m.changed = false
	return changed
}

// Content describes the newest datagram from AppendPacket: bulk, or only an ack.
func (m *Machine) Content() recovery.Content { return m.content }

// FirstByte returns the byte that datagrams with slices and acks begin with.
func (m *Machine) FirstByte() byte { return m.protocol }

// OtherFirstByte returns the byte that repair slices begin with. It tells the link that datagrams
// with this first byte are ours as well.
func (m *Machine) OtherFirstByte() byte { return repairByte }

// CanSend reports whether the owner may send another message. It may if only a few bytes are
// queued, or if the path can take all queued bytes within maxWait.
func (m *Machine) CanSend(maxWait time.Duration) bool {
	if m.out.full() {
		return false
	}
	rate := m.control.gate.Estimate()
	always := Size
	if m.path.Fates {
		rate = m.path.Rate
		always = minUnsent
	}
	if rate == 0 {
		always = firstUnsent
	}
	unsent := m.out.sendable()
	return unsent < always || unsent <= recovery.Bytes(rate, maxWait)
}

// Send queues a message. The caller mustn't change it until the machine frees b, which it does when
// all of the message's slices have been acked.
func (m *Machine) Send(message []byte, b Block) error {
	m.changed = true
	return m.out.send(message, b)
}

// Queued returns the number of bytes of messages that have never been sent.
func (m *Machine) Queued() int { return m.out.unsent }

// Watch makes Wake return true as soon as CanSend(maxWait) does.
func (m *Machine) Watch(maxWait time.Duration) {
	m.watching, m.watchWait = true, maxWait
	m.checkWatch()
	m.changed = m.changed || m.wake
}

// checkWatch ends a Watch if its condition holds. It is called whenever the condition may have
// changed: when slices are sent or acked, and when timers run.
func (m *Machine) checkWatch() {
	if m.watching && m.CanSend(m.watchWait) {
		m.watching = false
		m.wake = true
	}
}

// SetNoMore sets whether the owner has no more messages for now. We send repair slices only while
// noMore is true.
func (m *Machine) SetNoMore(noMore bool) {
	m.noMore = noMore
	m.changed = true
}

// Take returns the peer's completed messages, in order. When the caller has finished with the
// messages, it must pass each one to Release, and then all of them to GiveBack.
func (m *Machine) Take() [][]byte { return m.in.take() }

// Release takes a message off the account, because the caller has finished with it or charges it
// elsewhere. It uses only the account, so it may be called on any goroutine.
func (m *Machine) Release(message []byte) { m.in.release(message) }

// GiveBack returns the memory of released messages to the machine for reuse.
func (m *Machine) GiveBack(messages [][]byte) { m.in.recycle(messages) }

// DropRepairs frees the repair slices that are waiting for other slices from their chunk. The peer
// will have to resend the slices that they might have restored.
func (m *Machine) DropRepairs() { m.in.dropRepairs() }

// Discard frees everything that the peer has sent. It's called when the connection ends. The
// account must be closed first, so that slices that arrive later are refused.
func (m *Machine) Discard() { m.in.discard() }

// Stats returns a copy of the counters.
func (m *Machine) Stats() Stats {
	return Stats{
		Slices: m.out.flight.Next - m.out.withheld.count, Resent: m.out.resent, Fated: m.sentWithFates,
		Repairs: m.repairs.sent, Restored: m.in.restorer.restored,
		Refused: m.in.refused, Malformed: m.in.malformed,
	}
}
