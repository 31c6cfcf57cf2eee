package link_test

import (
	"errors"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/recovery"
)

// machine is a protocol that does what a test sets. It is used under the link's lock.
type machine struct {
	first byte

	// What to do.
	ready      int // packets to send
	size       int // bytes of a packet; 0 = as many as fit
	ignoreMax  bool
	next       time.Time
	wakes      int // times that Wake says true
	undrained  bool
	hole       bool
	losses     uint64
	rests      int // of the writer, which asks for losses in each
	receiveErr error
	advanceErr error
	onPacket   func(now time.Time, datagram []byte)
	onAppend   func() // before a packet is built

	// What happened.
	received [][]byte
	unsent   []uint64
	maxes    []int // of the packets built
	advanced []time.Time
	windows  []int
	number   uint64
	uncorked int

	bulk  bool
	paths []recovery.Path
	fates []fate
}

// fate is the arguments of a call of Fate.
type fate struct {
	number  uint64
	arrived bool
}

func (m *machine) Receive(now time.Time, datagram []byte) error {
	m.received = append(m.received, slices.Clone(datagram))
	if m.onPacket != nil {
		m.onPacket(now, datagram)
	}
	return m.receiveErr
}

func (m *machine) AppendPacket(_ time.Time, buf []byte, size int) ([]byte, uint64, bool) {
	if m.ready == 0 {
		return nil, 0, false
	}
	if m.onAppend != nil {
		m.onAppend()
	}
	m.ready--
	m.number++
	m.maxes = append(m.maxes, size)
	if m.size > 0 {
		size = min(size, m.size)
	}
	if m.ignoreMax {
		size = cap(buf)
	}
	packet := buf[:size]
	clear(packet)
	packet[0] = m.first
	return packet, m.number, true
}

func (m *machine) Unsent(number uint64) {
	m.unsent = append(m.unsent, number)
	m.ready++
}

func (m *machine) Advance(now time.Time) error {
	m.advanced = append(m.advanced, now)
	return m.advanceErr
}

func (m *machine) NextTimeout() (time.Time, bool) { return m.next, !m.next.IsZero() }

func (m *machine) SetWindow(bytes int) { m.windows = append(m.windows, bytes) }

func (m *machine) SetPath(_ time.Time, p recovery.Path) { m.paths = append(m.paths, p) }

func (m *machine) Fate(_ time.Time, number uint64, arrived bool) {
	m.fates = append(m.fates, fate{number, arrived})
}

func (m *machine) Content() recovery.Content { return recovery.Content{Bulk: m.bulk} }

func (m *machine) Queued() int { return m.ready * 1000 }

func (m *machine) Wake() bool {
	if m.wakes == 0 {
		return false
	}
	m.wakes--
	return true
}

func (m *machine) Drained() bool { return !m.undrained }

func (m *machine) FirstByte() byte { return m.first }

func (m *machine) BlackHole() bool {
	hole := m.hole
	m.hole = false
	return hole
}

func (m *machine) Lost() uint64 {
	m.rests++
	return m.losses
}

func (m *machine) Cork(on bool) {
	if !on {
		m.uncorked++
	}
}

func (m *machine) ReceiveLent(now time.Time, datagram []byte) error { return m.Receive(now, datagram) }

func (m *machine) Changed() bool                    { return true }
func (m *machine) InFlight() int                    { return 0 }
func (m *machine) Waiting() (unreliable, bulk bool) { return false, false }
func (m *machine) Hold(_, _ bool)                   {}
func (m *machine) Acked() uint64                    { return 0 }
func (m *machine) Overtaken(_, _ time.Time)         {}
func (m *machine) OtherFirstByte() byte             { return m.first }
func (m *machine) Arrived() time.Time               { return time.Time{} }

// quietMachine says itself whether an Unlock matters.
type quietMachine struct {
	*machine
	changed bool
}

func (m *quietMachine) Changed() bool {
	changed := m.changed
	m.changed = false
	return changed
}

// violation is a machine's error with a code.
type violation struct{}

var errViolation error = violation{}

func (violation) Error() string               { return "a violation" }
func (violation) CloseCode() (uint64, string) { return 7, "bad header" }

var errBroken = errors.New("the wire broke")

// under runs fn under the link's lock.
func under(l *link.Link, fn func()) {
	l.Lock()
	defer l.Unlock()
	fn()
}
