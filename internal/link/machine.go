package link

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Machine is a protocol without clock, goroutine or lock. All methods are called under the link's lock.
type Machine interface {
	// Receive takes a datagram, which then belongs to the machine. An error is a violation and ends the connection. If it has a
	// method CloseCode() (uint64, string), that returns the code and reason to close with.
	Receive(now time.Time, datagram []byte) error

	// AppendPacket builds the next datagram, of at most size bytes, if one may leave now.
	AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool)

	// Unsent takes back the newest datagram of AppendPacket, which did not leave.
	Unsent(number uint64)

	// Advance runs the timers that are due. It is called before every AppendPacket. An error ends the connection, like one of
	// Receive. Afterwards NextTimeout lies after now, or a packet is ready.
	Advance(now time.Time) error

	NextTimeout() (time.Time, bool)

	// Content returns what the newest datagram of AppendPacket holds.
	Content() recovery.Content

	// Queued returns how many bytes that the owner gave were never sent.
	Queued() int

	// SetPath says what is known of the path. When its Epoch has risen, datagrams take another path from now on.
	SetPath(now time.Time, p recovery.Path)

	// Fate says whether a datagram arrived. It is called only while the path's Fates is set. An arrival frees nothing: the peer's
	// machine acks for itself.
	Fate(now time.Time, number uint64, arrived bool)

	// SetWindow says how many bytes the machine may have in flight: the path's congestion window less what other machines have
	// in flight, but at least half of it. More would wait inside the carrier.
	SetWindow(bytes int)

	// Wake reports, once, that something has happened for which the owner waits.
	Wake() bool

	// Drained reports whether no reliable data is unsent or unacknowledged.
	Drained() bool

	// FirstByte is the first byte of the datagrams that are for this machine. It never changes.
	FirstByte() byte
}

// BlackHoler is an optional part of a [Machine].
type BlackHoler interface {
	// BlackHole reports, once, that three packets in a row above [SafeDatagram] bytes were lost while smaller ones
	// were acknowledged.
	BlackHole() bool
}

// LossCounter is an optional part of a [Machine].
type LossCounter interface {
	// Lost returns how many packets the machine has counted as lost so far. Losses make bursts shorter.
	Lost() uint64
}

// Flyer is an optional part of a [Machine] that shares the window with others.
type Flyer interface {
	// InFlight returns how many bytes the machine has in flight now.
	InFlight() int
}

// Acker is an optional part of the first [Machine], whose packets have consecutive numbers.
type Acker interface {
	// Acked returns one above the newest packet that the peer has acknowledged.
	Acked() uint64
}

// Overtaker is an optional part of the first [Machine]: datagrams of others that overtook its packets show that those were lost, when it
// has none itself on the way.
type Overtaker interface {
	// Overtaken says that a datagram of another machine, which left at sent, has arrived.
	Overtaken(now, sent time.Time)
}

// Arriver is an optional part of a machine that is not the first; its word goes to the first one's [Overtaker].
type Arriver interface {
	// Arrived returns when the newest datagram left that the peer has acknowledged; zero when there is none.
	Arrived() time.Time
}

// Changer is an optional part of a [Machine] that spares the writer idle rounds.
type Changer interface {
	// Changed reports whether, since the last call, the owner has done something that may let a packet leave, move the next
	// timeout, make Wake true or Advance fail, or Receive has let a packet leave. For a machine without it every Unlock and
	// every datagram counts as a change.
	Changed() bool
}

// Seconder is an optional part of a [Machine] with datagrams of two kinds.
type Seconder interface {
	// SecondByte is another first byte of datagrams that are for this machine. It never changes.
	SecondByte() byte
}

// Copier is an optional part of a [Machine] that keeps no datagram that it receives.
type Copier interface{ Copies() }

// Lender is an optional part of a [Machine] that keeps datagrams: ReceiveLent is Receive, but copies what is kept.
type Lender interface {
	ReceiveLent(now time.Time, datagram []byte) error
}

// Corker is an optional part of a [Machine]. A Close uncorks it, so that what is queued can drain.
type Corker interface {
	Cork(on bool)
}

// Holder is an optional part of a [Machine] with unreliable data or bulk, which [Config].Rate may hold back. The datagrams of a machine
// without it count, but are not held back.
type Holder interface {
	// Waiting reports whether unreliable data, and bulk, would leave now if they were not held back.
	Waiting() (unreliable, bulk bool)
	// Hold says whether to hold each of them back, until the next call.
	Hold(unreliable, bulk bool)
}

// slot is a machine, with its optional parts looked up once: nil when it lacks one.
type slot struct {
	Machine
	first      byte // first byte of its datagrams
	second     byte // first byte of its other kind of datagrams; first when it has one kind
	blackHoler BlackHoler
	losses     LossCounter
	flyer      Flyer
	changer    Changer
	acker      Acker
	corker     Corker
	overtaker  Overtaker
	arriver    Arriver
	holder     Holder
	lender     Lender

	copies  bool      // it is a Copier
	arrived time.Time // the newest Arrived that the first machine's Overtaker was told
	window  int       // by the last SetWindow
}

func newSlot(m Machine) slot {
	s := slot{Machine: m, first: m.FirstByte(), second: m.FirstByte()}
	if seconder, ok := m.(Seconder); ok {
		s.second = seconder.SecondByte()
	}
	s.blackHoler, _ = m.(BlackHoler)
	s.losses, _ = m.(LossCounter)
	s.flyer, _ = m.(Flyer)
	s.changer, _ = m.(Changer)
	s.acker, _ = m.(Acker)
	s.corker, _ = m.(Corker)
	s.overtaker, _ = m.(Overtaker)
	s.arriver, _ = m.(Arriver)
	s.holder, _ = m.(Holder)
	s.lender, _ = m.(Lender)
	_, s.copies = m.(Copier)
	return s
}

// take gives the machine a datagram that stays the caller's.
func (s *slot) take(now time.Time, datagram []byte) error {
	switch {
	case s.lender != nil:
		return s.lender.ReceiveLent(now, datagram)
	case !s.copies:
		datagram = append([]byte(nil), datagram...)
	}
	return s.Receive(now, datagram)
}

func (s *slot) blackHole() bool { return s.blackHoler != nil && s.blackHoler.BlackHole() }

func (s *slot) changed() bool { return s.changer == nil || s.changer.Changed() }

func (s *slot) lost() uint64 {
	if s.losses == nil {
		return 0
	}
	return s.losses.Lost()
}

func (s *slot) inFlight() int {
	if s.flyer == nil {
		return 0
	}
	return s.flyer.InFlight()
}
