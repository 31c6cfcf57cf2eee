package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// TrimAfter is how long a machine must neither send nor receive a slice before it frees
	// its spare memory.
	TrimAfter = 10 * time.Second
	// firstUnsent is the number of bytes that may be queued while the path's rate is unknown.
	// It exceeds QUIC's initial window (RFC 9002, section 7.2), so the queue does not run dry
	// in the first round trip.
	firstUnsent = 64 << 10
	// leastUnsent is the number of bytes that may always be queued on a path that reports
	// fates, however slow it is. They delay no play.
	leastUnsent = 64 << 10
	// mostAckBytes is the size of the largest datagram that holds an ack.
	mostAckBytes = 1 + chunk.Overhead + chunk.MaxSlices/8
)

// AppendPacket gives each datagram a number, which Unsent and Fate use to refer to it. The
// number of a slice is that of its sending (see flight). The number of an ack is ackNumber
// plus its chunk ID. Every repair slice has otherNumber.
const (
	ackNumber   = 1 << 63
	otherNumber = 1 << 62
)

// A Machine is one end of a connection's slice protocol. Each of its datagrams holds one
// packet of package chunk. A datagram that the machine cannot parse is counted and dropped,
// and ends no transfer. Only Release may be called concurrently with other methods.
type Machine struct {
	protocol byte // first byte of its datagrams
	out      outbox
	in       inbox

	// The path.
	path    recovery.Path // as of the last SetPath
	control control       // used while the path does not report fates
	repairs repairs       // used while it does report fates
	fated   uint64        // slices sent while the path reports fates
	// Set by Advance while the path reports fates. An ack is due, so NextTimeout need not
	// return its time again.
	ackDue bool
	left   leftPath // the path before the last change
	unkept unkept   // resends slices that arrived but that the peer never acked

	// For the link.
	held          bool             // set by Hold: slices wait for the connection's rate or the carrier's pace
	content       recovery.Content // describes the last datagram from AppendPacket
	changed       bool             // returned and cleared by Changed
	newestArrived time.Time        // returned by Arrived

	active time.Time // when a slice was last sent or received; zero after trim has freed the spare memory

	// For the owner, a streamer.
	ended    bool          // set by End: the owner has no more messages for now
	watching bool          // set by Watch, cleared when Open(queue) is true
	queue    time.Duration // argument of Watch
	wake     bool          // returned and cleared by Wake
}

// New returns a machine whose datagrams begin with the byte protocol. A machine numbers its
// chunks from 0, so each end needs exactly one machine per protocol byte. Memory that the
// peer makes the machine hold is charged to account.
func New(protocol byte, account Account) *Machine {
	return &Machine{protocol: protocol, in: newInbox(account, gatedAcks)}
}

// Receive handles a datagram from the peer. It does not retain datagram and always returns
// nil.
func (m *Machine) Receive(now time.Time, datagram []byte) error {
	m.changed = true
	switch {
	case len(datagram) == 0:
		m.in.malformed++
	case datagram[0] == repairByte:
		m.receiveRepair(now, datagram)
	default:
		m.receiveChunk(now, datagram[1:])
	}
	return nil
}

// receiveChunk handles a packet of package chunk: a slice or an ack.
func (m *Machine) receiveChunk(now time.Time, packet []byte) {
	p, err := config.Parse(packet)
	switch {
	case err != nil:
		m.in.malformed++
	case p.Kind == chunk.KindSlice:
		m.active = now
		m.wake = m.in.slice(now, p.Slice) || m.wake
	default:
		m.receiveAck(now, &p.Ack)
	}
}

// receiveRepair handles a repair slice.
func (m *Machine) receiveRepair(now time.Time, datagram []byte) {
	r, ok := parseRepair(datagram)
	if !ok {
		m.in.malformed++
		return
	}
	m.wake = m.in.repair(now, r) || m.wake
}

// receiveAck handles an ack by freeing the acknowledged slices. On a path that does not
// report fates, the ack also shows which slices are lost and measures the round trip.
func (m *Machine) receiveAck(now time.Time, a *chunk.Ack) {
	c, fresh := m.out.news(a)
	if c == nil {
		return
	}
	t := m.out.since(now)
	var news acked
	if !m.path.Fates {
		// acknowledge removes the sendings from the flight, so hear comes first.
		news = m.control.hear(t, &m.out.flight, c, &fresh)
	}
	if fresh.Count() > 0 {
		m.unkept.resends = 0
	}
	m.out.acknowledge(now, c, &fresh)
	if news.timed > 0 {
		m.newestArrived = m.out.time(m.out.flight.At(news.timed - 1).at)
	}
	if news.first {
		m.control.learn(t, &m.out, a.ChunkID, news)
	}
	m.checkWatch()
}

// AppendPacket appends the next datagram, of at most most bytes, to buf. Acks go first, then
// slices, then repair slices. ok is false if there is nothing to send now.
func (m *Machine) AppendPacket(now time.Time, buf []byte, most int) (packet []byte, number uint64, ok bool) {
	if most < mostAckBytes {
		return buf, 0, false
	}
	m.content.Bulk = false
	if a, ok := m.in.nextAck(now); ok {
		m.ackDue = false
		return config.AppendAck(append(buf, m.protocol), a), ackNumber + uint64(a.ChunkID), true
	}
	if most < Datagram || !m.mayLeave() {
		return buf, 0, false
	}
	m.content.Bulk = true
	before := m.out.flight.bytes
	s, number, ok := m.out.next(now)
	switch {
	case ok:
		m.sliceSent(now, number, before)
		return config.AppendSlice(append(buf, m.protocol), s), number, true
	case m.path.Fates:
		return m.appendRepair(buf)
	}
	m.control.spent(before)
	return buf, 0, false
}

// mayLeave reports whether a slice may be sent now. On a path that reports fates, the carrier
// decides this through Hold.
func (m *Machine) mayLeave() bool {
	switch {
	case m.path.Fates:
		return !m.held
	case !m.control.mayLeave(&m.out.flight):
		return false
	case m.held && m.control.probes == 0:
		m.control.limited(m.out.flight.bytes)
		return false
	}
	return true
}

// sliceSent records that a slice is sent. others is the number of bytes other slices have in
// flight.
func (m *Machine) sliceSent(now time.Time, number uint64, others int) {
	m.active = now
	if m.path.Fates {
		m.unkept.since = now
		m.fated++
	} else {
		m.control.sent(m.out.flight.At(number), others)
	}
	m.checkWatch()
}

// appendRepair appends a repair slice if the owner has no more messages. If the owner has
// some, they are a better use of the path. It is called when no slice is left to send.
func (m *Machine) appendRepair(buf []byte) (packet []byte, number uint64, ok bool) {
	if !m.ended {
		return buf, 0, false
	}
	r, ok := m.repairs.take(&m.out, m.path.Loss)
	if !ok {
		return buf, 0, false
	}
	return r.append(buf), otherNumber, true
}

// Unsent is called when a datagram from AppendPacket was not sent after all. The machine will
// send its content again.
func (m *Machine) Unsent(number uint64) {
	switch {
	case number >= ackNumber:
		m.in.ackAgain(uint16(number))
	case number < otherNumber:
		m.out.lose(number)
	}
}

// Fate is called when the carrier reports that a datagram has arrived or was lost. A lost
// slice is sent again. A slice that arrived is kept until an ack confirms it, because the
// peer may have had no memory for it (see unkept).
func (m *Machine) Fate(now time.Time, number uint64, arrived bool) {
	m.repairs.loss.Note()
	switch {
	case !arrived:
		m.Unsent(number)
	case number < otherNumber:
		m.unkept.since = now
		m.out.arrive(number)
	}
}

// SetPath gives the machine the current state of the path.
//
// When Epoch or Fates changes, all chunks stay, with their acked slices. Slices in flight on
// the old path may still be acked (see leftPath). If the old path reported fates, the carrier
// still reports theirs.
func (m *Machine) SetPath(now time.Time, p recovery.Path) {
	if p.Fates != m.path.Fates || p.Epoch != m.path.Epoch {
		m.changePath(now, p)
	}
	m.path = p
}

// changePath starts over on p, a different path.
func (m *Machine) changePath(now time.Time, p recovery.Path) {
	m.control.begin(m.out.flight.Next)
	m.unkept = unkept{since: now}
	m.ackDue = false
	m.changed = true
	// A path that reports fates leaves m.left alone: it may still wait for sendings on an
	// earlier path that did not.
	if !m.path.Fates {
		m.left = leftPath{below: m.out.flight.Next, until: now.Add(recovery.Overdue(p.RTT, ackDelay))}
	}
	if p.Fates {
		m.in.acks.pace = fatedAcks
		return
	}
	m.in.acks.pace = gatedAcks
	m.in.ackAllAgain()
}

// SetWindow limits the bytes of slices in flight while the path does not report fates.
func (m *Machine) SetWindow(bytes int) { m.control.gate.PathWindow = bytes }

// Unmeasured reports whether the round trip is unknown: the path does not report fates and no
// ack of a slice has measured the path yet.
func (m *Machine) Unmeasured() bool { return !m.path.Fates && !m.control.gate.Known() }

// Assume sets the round trip and its variance to those of the connection's other datagrams,
// as long as the machine is [Machine.Unmeasured]. It does not set the minimum. The path may
// have become longer since that minimum was measured, so only slices measure it.
func (m *Machine) Assume(smoothed, variance time.Duration) {
	if !m.Unmeasured() {
		return
	}
	m.control.gate.Assume(smoothed, variance)
}

// Advance runs the timers that are due at now. It always returns nil.
func (m *Machine) Advance(now time.Time) error {
	if at, ok := m.unkept.at(&m.out); ok && !now.Before(at) {
		m.unkept.since = now
		m.unkept.resends++
		m.out.resendAll()
	}
	m.left.giveUp(now, &m.out)
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

// trimAt returns the time at which trim is due. ok is false while messages are unacknowledged
// and after trim has run.
func (m *Machine) trimAt() (at time.Time, ok bool) {
	if m.active.IsZero() || !m.out.idle() {
		return at, false
	}
	return m.active.Add(TrimAfter), true
}

// trim frees memory kept for reuse.
func (m *Machine) trim() {
	m.active = time.Time{}
	m.out.trim()
	m.repairs.trim()
	m.in.trim()
}

// NextTimeout returns the time at which Advance or AppendPacket must be called, unless
// something happens first. ok is false if no timer is set.
func (m *Machine) NextTimeout() (at time.Time, ok bool) {
	var first recovery.Earliest
	at, ok = m.in.acks.dueAt()
	first.Add(at, ok && !m.ackDue)
	first.Add(m.unkept.at(&m.out))
	first.Add(m.trimAt())
	first.Add(m.left.until, m.left.below > 0)
	if !m.path.Fates {
		first.Add(m.out.time(m.control.losses.Next), m.control.losses.Next != 0)
		at, ok := m.control.timeoutAt(&m.out.flight)
		first.Add(m.out.time(at), ok)
	}
	return first.Time()
}

// Waiting reports what could be sent if Hold did not prevent it. The machine has no
// unreliable messages, and all its slices are bulk.
func (m *Machine) Waiting() (unreliable, bulk bool) {
	return false, !m.out.idle() && (m.path.Fates || m.control.mayLeave(&m.out.flight))
}

// Hold stops slices, but not acks, until it is called with bulk = false.
func (m *Machine) Hold(_, bulk bool) { m.held = bulk }

// InFlight returns the bytes of slices in flight.
func (m *Machine) InFlight() int { return m.out.flight.bytes }

// Arrived returns the time at which the newest slice known to have arrived was sent. It
// covers only paths that do not report fates.
func (m *Machine) Arrived() time.Time { return m.newestArrived }

// Lost returns the number of slices the machine itself declared lost (RFC 9002, section 6.1).
// Losses reported by a carrier are not included.
func (m *Machine) Lost() uint64 { return m.control.lost }

// Wake reports whether, since the last call, a message from the peer was completed or the
// condition of Watch became true.
func (m *Machine) Wake() bool {
	wake := m.wake
	m.wake = false
	return wake
}

// Changed reports whether something happened since the last call after which AppendPacket may
// have a datagram.
func (m *Machine) Changed() bool {
	changed := m.changed
	m.changed = false
	return changed
}

// Content describes the last datagram from AppendPacket: bulk, or only an ack.
func (m *Machine) Content() recovery.Content { return m.content }

// FirstByte returns the first byte of datagrams with slices and acks.
func (m *Machine) FirstByte() byte { return m.protocol }

// SecondByte returns the other first byte that the machine uses, for datagrams with repair
// slices.
func (m *Machine) SecondByte() byte { return repairByte }

// Open reports whether the owner may send another message. It may if few bytes are queued or
// if the path takes all of them within queue.
func (m *Machine) Open(queue time.Duration) bool {
	rate := m.control.gate.Estimate()
	least := Size
	if m.path.Fates {
		rate = m.path.Rate
		least = leastUnsent
	}
	switch {
	case m.out.full():
		return false
	case rate == 0:
		return m.out.unsent < firstUnsent
	}
	return m.out.unsent < least || m.out.unsent <= recovery.Bytes(rate, queue)
}

// Send queues a message. The caller must not change the message until all its slices are
// acked. The machine then frees the block.
func (m *Machine) Send(message []byte, b Block) error {
	m.changed = true
	return m.out.send(message, b)
}

// Queued returns the number of message bytes not sent yet.
func (m *Machine) Queued() int { return m.out.unsent }

// Watch makes Wake return true once Open(queue) is true.
func (m *Machine) Watch(queue time.Duration) {
	m.watching, m.queue = true, queue
	m.checkWatch()
	m.changed = m.changed || m.wake
}

// checkWatch ends a Watch whose condition is true. It is called whenever slices are sent or
// acked and when timers run.
func (m *Machine) checkWatch() {
	if m.watching && m.Open(m.queue) {
		m.watching = false
		m.wake = true
	}
}

// End sets whether the owner has no more messages for now. The machine sends repair slices
// only then.
func (m *Machine) End(ended bool) {
	m.ended = ended
	m.changed = true
}

// Take returns the completed messages from the peer, in order. The caller passes each one to
// Release, and then all of them to GiveBack.
func (m *Machine) Take() [][]byte { return m.in.take() }

// Release takes a message off the account when the caller is done with it or has charged it
// elsewhere. It touches only the account, so it may be called from any goroutine.
func (m *Machine) Release(message []byte) { m.in.memory.release(message) }

// GiveBack returns the memory of released messages to the machine for reuse.
func (m *Machine) GiveBack(messages [][]byte) { m.in.giveBack(messages) }

// Yield frees the repair slices that wait for others of their chunk. The peer resends the
// slices that they would have restored.
func (m *Machine) Yield() { m.in.makeRoom() }

// Discard frees everything the peer has sent when the connection ends. The account must be
// closed by then, so that later slices are refused.
func (m *Machine) Discard() { m.in.discard() }

// Stats returns a copy of the counters.
func (m *Machine) Stats() Stats {
	return Stats{
		Slices: m.out.flight.Next, Resent: m.out.resent, Fated: m.fated,
		Repairs: m.repairs.sent, Restored: m.in.restorer.restored,
		Refused: m.in.refused, Malformed: m.in.malformed,
	}
}
