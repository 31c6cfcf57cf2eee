package stream

import (
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/recovery"
)

// sliceTrimAfter is the silence after which spare memory is given up.
const sliceTrimAfter = 10 * time.Second

// sliceMachine carries the slices of one connection over its datagrams, one packet of package chunk in each. It is a
// machine without clock and lock; an rpc.Machine when it is told to whom news go, see sliceLink.
type sliceMachine struct {
	slicer
	protocol byte // the first of its datagrams
	gate     sliceGate
	losses   sliceLosses
	inbox    sliceInbox
	mender   mender
	format   chunk.Config

	sealed     bool    // the sealed carrier moves the slices
	sealedRate float64 // of it, bytes a second; 0 = not known
	foreign    uint64  // sendings below it went another way: they tell nothing of this path

	acks    uint64 // sent, the numbers of their datagrams beyond those of slices
	held    bool   // slices wait for the connection's rate
	lastAck bool   // the newest datagram was an ack
	ackID   uint16 // of the newest
	changed bool   // something may leave
	active  time.Time
	arrived time.Time // sending of the newest slice that is known to have arrived

	// For whom the owner waits.
	watching bool
	queue    time.Duration
	wake     bool
}

func newSliceMachine(protocol byte, account *account) *sliceMachine {
	m := &sliceMachine{protocol: protocol, format: sliceConfig()}
	m.losses.slack = 1
	m.inbox = sliceInbox{account: account, ackEvery: sliceAckEvery, ackDelay: sliceAckDelay}
	return m
}

// Receive takes a datagram. What is malformed is dropped and counted: it changes nothing, and ends no transfer.
func (m *sliceMachine) Receive(now time.Time, datagram []byte) error {
	m.changed = true
	p, err := m.format.Parse(datagram[1:])
	switch {
	case err != nil:
		m.inbox.malformed++
	case p.Kind == chunk.KindSlice:
		m.active = now
		m.wake = m.inbox.add(now, p.Slice) || m.wake
		m.wake = m.mender.mend(now, p.Slice.ChunkID, &m.inbox) || m.wake
	default:
		m.hear(now, p.Ack)
	}
	return nil
}

// hear takes an ack.
func (m *sliceMachine) hear(now time.Time, a chunk.Ack) {
	var newest *sentSlice // of those that tell when they left
	high, news := uint64(0), false
	m.acknowledge(now, a, func(p *sentSlice) {
		if p.number < m.foreign {
			return
		}
		news = true
		m.gate.landed(now, p)
		switch {
		case p.fate == sliceLost:
			m.losses.spuriously()
		case p.again && now.Sub(p.at) < m.gate.Min: // an earlier sending arrived
			return
		}
		high = max(high, p.number+1)
		if !p.again && (newest == nil || p.number > newest.number) {
			newest = p
		}
	})
	m.checkWatch()
	if !news {
		return
	}
	m.losses.heard()
	if newest != nil {
		m.gate.measure(now, newest)
		m.arrived = newest.at
	}
	m.losses.largest = max(m.losses.largest, high)
	m.losses.detect(now, &m.flight, &m.gate, a.ChunkID, high, m.drop)
	m.checkWatch()
}

// drop gives up the sending with that number.
func (m *sliceMachine) drop(number uint64) {
	if p := m.flight.get(number); p != nil {
		m.gate.Lost(&p.mark, p.size)
	}
	m.lose(number)
}

// AppendPacket appends the ack or slice that is to leave now.
func (m *sliceMachine) AppendPacket(now time.Time, buf []byte, most int) (packet []byte, number uint64, ok bool) {
	if most < sliceDatagram {
		return buf, 0, false
	}
	if a, ok := m.inbox.next(now); ok {
		m.lastAck, m.ackID = true, a.ChunkID
		m.acks++
		return m.format.AppendAck(append(buf, m.protocol), a), m.acks, true
	}
	if !m.mayLeave() {
		return buf, 0, false
	}
	flying := m.flight.bytes
	if m.held && m.losses.probes == 0 {
		m.gate.Limited(flying)
		return buf, 0, false
	}
	s, number, ok := m.next(now)
	if !ok {
		m.gate.Limited(flying)
		m.losses.probes = 0
		return buf, 0, false
	}
	m.gate.sent(now, m.flight.at(number), flying)
	m.losses.lastSent, m.active = now, now
	m.losses.probes = max(m.losses.probes-1, 0)
	m.lastAck = false
	m.checkWatch()
	return m.format.AppendSlice(append(buf, m.protocol), s), number, true
}

// mayLeave reports whether one more slice may be in flight.
func (m *sliceMachine) mayLeave() bool {
	if m.losses.probes > 0 {
		return true
	}
	return m.losses.timeouts < sliceTimeouts && m.flight.bytes+sliceDatagram <= m.gate.window()
}

// Waiting reports whether slices may wait for the rate.
func (m *sliceMachine) Waiting() (unreliable, bulk bool) { return false, !m.idle() && m.mayLeave() }

// Hold keeps slices back; acks pass.
func (m *sliceMachine) Hold(_, bulk bool) { m.held = bulk }

// Unsent takes back the newest datagram.
func (m *sliceMachine) Unsent(number uint64) {
	if m.lastAck {
		m.inbox.again(m.ackID)
		return
	}
	m.lose(number)
}

// Advance runs the timers that are due.
func (m *sliceMachine) Advance(now time.Time) error {
	if !m.losses.at.IsZero() && !now.Before(m.losses.at) {
		m.losses.detect(now, &m.flight, &m.gate, 0, 0, m.drop)
		m.checkWatch()
	}
	if at, ok := m.losses.timeoutAt(&m.flight, &m.gate); ok && !now.Before(at) {
		m.losses.timeout(&m.flight, m.drop)
	}
	m.tidy(now)
	return nil
}

// tidy gives up spare memory when that is due.
func (m *sliceMachine) tidy(now time.Time) {
	if at, ok := m.trimAt(); ok && !now.Before(at) {
		m.active = time.Time{}
		m.trim()
		m.inbox.trim()
		m.mender.trim(m.inbox.account)
	}
}

func (m *sliceMachine) trimAt() (time.Time, bool) {
	return m.active.Add(sliceTrimAfter), !m.active.IsZero() && m.idle()
}

// NextTimeout returns when Advance or AppendPacket is to be called again.
func (m *sliceMachine) NextTimeout() (next time.Time, any bool) {
	var first earliest
	first.of(m.inbox.deadline, m.inbox.asking > 0)
	first.of(m.losses.at, !m.losses.at.IsZero())
	first.of(m.losses.timeoutAt(&m.flight, &m.gate))
	first.of(m.trimAt())
	return first.at, first.any
}

// earliest is the first of some times.
type earliest struct {
	at  time.Time
	any bool
}

func (e *earliest) of(at time.Time, ok bool) {
	if ok && (!e.any || at.Before(e.at)) {
		e.at, e.any = at, true
	}
}

// SetWindow takes what the path gives to slices.
func (m *sliceMachine) SetWindow(bytes int) { m.gate.PathWindow = bytes }

// InFlight returns the bytes of slices under way.
func (m *sliceMachine) InFlight() int { return m.flight.bytes }

// Arrived returns when the newest slice left that is known to have arrived.
func (m *sliceMachine) Arrived() time.Time { return m.arrived }

// Lost returns how many slices counted as lost so far.
func (m *sliceMachine) Lost() uint64 { return m.losses.lost }

// Wake reports, once, that messages are whole or that a part may be given.
func (m *sliceMachine) Wake() bool {
	wake := m.wake
	m.wake = false
	return wake
}

// Changed reports, once, that something may let a packet leave.
func (m *sliceMachine) Changed() bool {
	changed := m.changed
	m.changed = false
	return changed
}

// Drained is always true: a connection that closes does not wait for bulk.
func (m *sliceMachine) Drained() bool { return true }

// FirstByte names the datagrams of the machine.
func (m *sliceMachine) FirstByte() byte { return m.protocol }

// firstUnsent may wait before anything is known of the path: what QUIC lets leave at first is less.
const firstUnsent = 64 << 10

// open reports whether another part may be given: what waits unsent will leave within queue, or nothing waits.
func (m *sliceMachine) open(queue time.Duration) bool {
	rate, least := m.gate.Estimate(), sliceBytes
	if m.sealed {
		rate, least = m.sealedRate, sealedUnsent
	}
	switch {
	case m.full():
		return false
	case rate == 0:
		return m.unsent < firstUnsent
	}
	return m.unsent < least || m.unsent <= recovery.Bytes(rate, queue)
}

// send takes a part.
func (m *sliceMachine) send(b *block, message []byte) error {
	m.changed = true
	return m.slicer.send(b, message)
}

// watch asks for one Wake as soon as open is true.
func (m *sliceMachine) watch(queue time.Duration) {
	m.watching, m.queue, m.changed = true, queue, true
	m.checkWatch()
}

func (m *sliceMachine) checkWatch() {
	if m.watching && m.open(m.queue) {
		m.watching, m.wake = false, true
	}
}

// sliceLink is the machine of a connection as its link sees it: it tells the world's goroutine that there is news without
// its having to take the lock.
type sliceLink struct {
	*sliceMachine
	news atomic.Bool
}

// Wake is called under the lock.
func (l *sliceLink) Wake() bool {
	if !l.sliceMachine.Wake() {
		return false
	}
	l.news.Store(true)
	return true
}
