package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// TrimAfter is how long no slice must come or leave before spare memory is given up.
	TrimAfter = 10 * time.Second
	// firstUnsent is how many bytes may wait unsent while nothing is known of the path: QUIC's first window is less.
	firstUnsent = 64 << 10
	// leastUnsent is how many bytes may always wait unsent on a path that tells fates: no play waits behind them.
	leastUnsent = 64 << 10
	// mostAckBytes is the size of the largest datagram with an ack.
	mostAckBytes = 1 + chunk.Overhead + chunk.MaxSlices/8
)

// Numbers of datagrams: a slice has that of its sending, an ack has ackNumber plus its chunk's id, a repair slice has otherNumber.
const (
	ackNumber   = 1 << 63
	otherNumber = 1 << 62
)

// Machine is one end of the slices of a connection, with one packet of package chunk in each datagram. It drops and counts datagrams
// that it cannot read: they change nothing and end no transfer. All methods but Release must be called by one caller at a time.
type Machine struct {
	protocol byte // first byte of its datagrams
	out      outbox
	in       inbox

	// The path.
	path    recovery.Path // as of the last SetPath
	control control       // used while the path tells no fates
	repairs repairs       // used while it tells fates
	fated   uint64        // slices that left while it told fates
	ackDue  bool          // on a path that tells fates: Advance has found an ack due, so NextTimeout need not name it again
	left    leftPath      // the path before the last change
	unkept  unkept        // resends slices that arrived and were not acked

	// For the link.
	held          bool             // set by Hold: slices wait for the connection's rate, or the carrier's pace
	content       recovery.Content // of AppendPacket's last datagram
	changed       bool             // Changed returns it and clears it
	newestArrived time.Time        // Arrived returns it

	active time.Time // when a slice last came or left; zero once spare memory was given up

	// For the owner, a streamer.
	ended    bool          // set by End: the owner will give no more messages
	watching bool          // set by Watch until Open(queue) is true
	queue    time.Duration // argument of Watch
	wake     bool          // Wake returns it and clears it
}

// New returns a machine whose datagrams begin with the byte protocol. Each machine numbers its chunks from 0, so both ends need one
// for each such byte.
func New(protocol byte, account Account) *Machine {
	return &Machine{protocol: protocol, in: newInbox(account, gatedAcks)}
}

// Receive takes a datagram, and keeps none of its memory. It never fails.
func (m *Machine) Receive(now time.Time, datagram []byte) error {
	m.changed = true
	switch {
	case len(datagram) == 0:
		m.in.malformed++
	case datagram[0] == repairByte:
		m.receiveRepair(now, datagram)
	default:
		m.receive(now, datagram[1:])
	}
	return nil
}

// receive takes a packet of package chunk: a slice or an ack.
func (m *Machine) receive(now time.Time, packet []byte) {
	p, err := config.Parse(packet)
	switch {
	case err != nil:
		m.in.malformed++
	case p.Kind == chunk.KindSlice:
		m.active = now
		m.wake = m.in.slice(now, p.Slice) || m.wake
	default:
		m.hear(now, &p.Ack)
	}
}

// receiveRepair takes a repair slice.
func (m *Machine) receiveRepair(now time.Time, datagram []byte) {
	r, ok := parseRepair(datagram)
	if !ok {
		m.in.malformed++
		return
	}
	m.wake = m.in.repair(now, r) || m.wake
}

// hear takes an ack. It frees what the ack names; only on a path that tells no fates does it also show losses and measure the path.
func (m *Machine) hear(now time.Time, a *chunk.Ack) {
	c, fresh := m.out.news(a)
	if c == nil {
		return
	}
	t := m.out.since(now)
	var news acked
	if !m.path.Fates {
		news = m.control.hear(t, &m.out.flight, c, &fresh) // before acknowledge settles the sendings
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

// AppendPacket appends the next datagram, of at most most bytes, if one may leave now: an ack, else a slice, else a repair slice.
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
		m.launched(now, number, before)
		return config.AppendSlice(append(buf, m.protocol), s), number, true
	case m.path.Fates:
		return m.appendRepair(buf)
	}
	m.control.spent(before)
	return buf, 0, false
}

// mayLeave reports whether a slice may leave now. On a path that tells fates the carrier decides, by its pace.
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

// launched notes that a slice leaves. Other slices have others bytes in flight.
func (m *Machine) launched(now time.Time, number uint64, others int) {
	m.active = now
	if m.path.Fates {
		m.unkept.since = now
		m.fated++
	} else {
		m.control.sent(m.out.flight.At(number), others)
	}
	m.checkWatch()
}

// appendRepair appends a repair slice, unless the owner will give more messages. It is called when all slices have left.
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

// Unsent takes back a datagram that never left.
func (m *Machine) Unsent(number uint64) {
	switch {
	case number >= ackNumber:
		m.in.ackAgain(uint16(number))
	case number < otherNumber:
		m.out.lose(number)
	}
}

// Fate takes the carrier's word on a datagram. A lost slice leaves again. A slice that arrived stays until an ack says that the peer has
// kept it.
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

// SetPath tells the machine about the path. When Epoch or Fates changes, chunks and their acks stay. Slices that are under way on a path
// without fates may still arrive; for those on a path with fates, the carrier still tells every fate.
func (m *Machine) SetPath(now time.Time, p recovery.Path) {
	if p.Fates != m.path.Fates || p.Epoch != m.path.Epoch {
		m.move(now, p)
	}
	m.path = p
}

// move starts on another path.
func (m *Machine) move(now time.Time, p recovery.Path) {
	m.control.begin(m.out.flight.Next)
	m.unkept = unkept{since: now}
	m.ackDue, m.changed = false, true
	if !m.path.Fates { // otherwise leftPath still waits for the sendings of an earlier path without fates
		m.left = leftPath{below: m.out.flight.Next, until: now.Add(recovery.Overdue(p.RTT, ackDelay))}
	}
	if p.Fates {
		m.in.acks.pace = fatedAcks
		return
	}
	m.in.acks.pace = gatedAcks
	m.in.ackAllAgain()
}

// SetWindow limits the bytes of slices in flight while the path tells no fates.
func (m *Machine) SetWindow(bytes int) { m.control.gate.PathWindow = bytes }

// Unmeasured reports whether the path tells no fates and no slice has measured its round trip yet.
func (m *Machine) Unmeasured() bool { return !m.path.Fates && !m.control.gate.Known() }

// Assume gives the machine the round trips of other datagrams, as long as it is [Machine.Unmeasured]. It leaves out their least: only slices
// measure that, because the path may have become longer.
func (m *Machine) Assume(smoothed, variance time.Duration) {
	if !m.Unmeasured() {
		return
	}
	m.control.gate.Assume(smoothed, variance)
}

// Advance runs the timers that are due. It never fails.
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

// trimAt returns when spare memory is given up.
func (m *Machine) trimAt() (at time.Time, ok bool) {
	if m.active.IsZero() || !m.out.idle() {
		return at, false
	}
	return m.active.Add(TrimAfter), true
}

// trim gives up spare memory.
func (m *Machine) trim() {
	m.active = time.Time{}
	m.out.trim()
	m.repairs.trim()
	m.in.trim()
}

// NextTimeout returns when Advance or AppendPacket must be called again.
func (m *Machine) NextTimeout() (time.Time, bool) {
	var first recovery.Earliest
	at, ok := m.in.acks.dueAt()
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

// Waiting reports whether slices may be waiting for the connection's rate.
func (m *Machine) Waiting() (unreliable, bulk bool) {
	return false, !m.out.idle() && (m.path.Fates || m.control.mayLeave(&m.out.flight))
}

// Hold keeps slices back; acks pass.
func (m *Machine) Hold(_, bulk bool) { m.held = bulk }

// InFlight returns the bytes of slices under way.
func (m *Machine) InFlight() int { return m.out.flight.bytes }

// Arrived returns when that slice left which is the newest that surely arrived on a path without fates.
func (m *Machine) Arrived() time.Time { return m.newestArrived }

// Lost returns the number of slices that the machine has given up by its own thresholds. Losses that a carrier told do not count.
func (m *Machine) Lost() uint64 { return m.control.lost }

// Wake reports whether, since its last call, messages of the peer became whole or the condition of Watch became true.
func (m *Machine) Wake() bool {
	wake := m.wake
	m.wake = false
	return wake
}

// Changed reports whether, since its last call, something happened that may let a packet leave.
func (m *Machine) Changed() bool {
	changed := m.changed
	m.changed = false
	return changed
}

// SecondByte returns the first byte of repair slices. All other datagrams of the machine begin with FirstByte.
func (m *Machine) SecondByte() byte { return repairByte }

// Content returns what the datagram that AppendPacket returned last holds: bulk, or an ack and nothing else.
func (m *Machine) Content() recovery.Content { return m.content }

// FirstByte returns the first byte of slices and acks.
func (m *Machine) FirstByte() byte { return m.protocol }

// Open reports whether the owner may give another message: few bytes wait unsent, or they will leave within queue.
func (m *Machine) Open(queue time.Duration) bool {
	rate, least := m.control.gate.Estimate(), Size
	if m.path.Fates {
		rate, least = m.path.Rate, leastUnsent
	}
	switch {
	case m.out.full():
		return false
	case rate == 0:
		return m.out.unsent < firstUnsent
	}
	return m.out.unsent < least || m.out.unsent <= recovery.Bytes(rate, queue)
}

// Send takes a message. The caller must not change it until all of its slices are acked; the machine frees the block then.
func (m *Machine) Send(message []byte, b Block) error {
	m.changed = true
	return m.out.send(message, b)
}

// Queued returns the bytes of messages that wait unsent.
func (m *Machine) Queued() int { return m.out.unsent }

// Watch asks for one Wake as soon as Open is true.
func (m *Machine) Watch(queue time.Duration) {
	m.watching, m.queue = true, queue
	m.checkWatch()
	m.changed = m.changed || m.wake
}

// checkWatch wakes the owner when the condition of Watch is true.
func (m *Machine) checkWatch() {
	if m.watching && m.Open(m.queue) {
		m.watching, m.wake = false, true
	}
}

// End tells whether the owner will give no more messages for now. Only then are repair slices worth their bytes.
func (m *Machine) End(ended bool) { m.ended, m.changed = ended, true }

// Take returns the peer's whole messages in order. The caller passes each to Release, and then all of them to GiveBack.
func (m *Machine) Take() [][]byte { return m.in.take() }

// Release takes a message off the account: the caller is done with it, or charges it to itself. It touches nothing but the account, and so
// is safe from any goroutine.
func (m *Machine) Release(message []byte) { m.in.memory.release(message) }

// GiveBack takes back the memory of messages that were released.
func (m *Machine) GiveBack(messages [][]byte) { m.in.giveBack(messages) }

// Yield gives up the repair slices that wait: the peer sends again what they would restore.
func (m *Machine) Yield() { m.in.makeRoom() }

// Discard forgets all that the peer has sent. The account must be closed, so that what still comes is refused: the connection ends.
func (m *Machine) Discard() { m.in.discard() }

// Stats returns a copy of the counters.
func (m *Machine) Stats() Stats {
	return Stats{
		Slices: m.out.flight.Next, Resent: m.out.resent, Fated: m.fated,
		Repairs: m.repairs.sent, Restored: m.in.restorer.restored,
		Refused: m.in.refused, Malformed: m.in.malformed,
	}
}
