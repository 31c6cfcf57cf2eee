package link

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Machine is a protocol without clock, goroutine or lock. All methods are called under the link's lock.
type Machine interface {
	// Receive owns the datagram from here. An error is a violation and ends the connection; its
	// CloseCode() (uint64, string) method, when it has one, gives the code and reason to close with.
	Receive(now time.Time, datagram []byte) error

	// AppendPacket builds the next datagram, at most max bytes, when one is to leave now.
	AppendPacket(now time.Time, buf []byte, max int) (packet []byte, number uint64, ok bool)

	// Unsent takes back the newest datagram of AppendPacket, which never left.
	Unsent(number uint64)

	// Advance runs the timers that are due. It is called before every AppendPacket, due or not. An error ends the
	// connection, like one of Receive. Afterwards NextTimeout lies after now or a packet is ready.
	Advance(now time.Time) error

	NextTimeout() (time.Time, bool)

	// Bulk reports whether the datagram that AppendPacket returned last holds bulk.
	Bulk() bool

	// Queued returns how many bytes of what the owner gave were never sent.
	Queued() int

	// SetPath says what is known of the path. When its Epoch rises, datagrams take another way from now on.
	SetPath(now time.Time, p recovery.Path)

	// Fate says what became of a datagram, while the path tells fates. That it arrived frees nothing.
	Fate(now time.Time, number uint64, arrived bool)

	// SetWindow says what of the path's congestion window, in bytes, is the machine's: less what other machines have in
	// flight, but half of it at least. What is in flight beyond it waits inside the carrier.
	SetWindow(bytes int)

	// Wake reports, once, that something happened for which the owner waits.
	Wake() bool

	// Drained reports that no reliable data is unsent or unacknowledged.
	Drained() bool

	// FirstByte names the datagrams that are for this machine. It never changes.
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
	// Lost returns how many packets were declared lost so far. Losses make bursts shorter.
	Lost() uint64
}

// Flyer is an optional part of a [Machine] that others share the window with.
type Flyer interface {
	// InFlight returns how many bytes of the window the machine takes now.
	InFlight() int
}

// Acker is an optional part of the first [Machine], whose packets have consecutive numbers.
type Acker interface {
	// Acked returns one above the newest packet that the peer acknowledged.
	Acked() uint64
}

// Overtaker is an optional part of the first [Machine], which may have nothing on its way that shows that a packet was lost.
type Overtaker interface {
	// Overtaken tells that a datagram of another machine, which left at sent, arrived.
	Overtaken(now, sent time.Time)
}

// Arriver is an optional part of a [Machine] that is not the first.
type Arriver interface {
	// Arrived returns when the newest of its datagrams left of which the peer said that it arrived, zero when none did.
	Arrived() time.Time
}

// Changer is an optional part of a [Machine] that spares the writer idle rounds.
type Changer interface {
	// Changed reports, once, that since it was last asked the owner did something that may let a packet leave, move
	// the next timeout, make Wake true or Advance fail, or that Receive let a packet leave. Without it every Unlock and
	// every datagram counts as a change.
	Changed() bool
}

// Seconder is an optional part of a [Machine] with datagrams of two kinds.
type Seconder interface {
	// SecondByte names more datagrams that are for this machine. It never changes.
	SecondByte() byte
}

// Copier is an optional part of a [Machine] that keeps nothing of what it receives.
type Copier interface{ Copies() }

// Corker is an optional part of a [Machine]. Close uncorks, so that what is queued can drain.
type Corker interface {
	Cork(on bool)
}

// Holder is an optional part of a [Machine] with unreliable data or bulk, which [Config].Rate may hold back. What a machine
// without it sends is counted, and not held.
type Holder interface {
	// Waiting reports whether unreliable data, and bulk, would leave now if they were not held.
	Waiting() (unreliable, bulk bool)
	// Hold keeps them back, or lets them go, until it is called again.
	Hold(unreliable, bulk bool)
}

// slot is a machine with its optional parts looked up once.
type slot struct {
	Machine
	first byte
	also  byte // first when there is none
	hole  BlackHoler
	loss  LossCounter
	fly   Flyer
	dirty Changer
	acker Acker
	cork  Corker
	over  Overtaker
	some  Arriver
	hold  Holder

	copies  bool
	arrived time.Time // the newest of Arriver that the first machine knows of
	window  int       // what the machine was told last
}

func newSlot(m Machine) slot {
	s := slot{Machine: m, first: m.FirstByte(), also: m.FirstByte()}
	if second, ok := m.(Seconder); ok {
		s.also = second.SecondByte()
	}
	s.hole, _ = m.(BlackHoler)
	s.loss, _ = m.(LossCounter)
	s.fly, _ = m.(Flyer)
	s.dirty, _ = m.(Changer)
	s.cork, _ = m.(Corker)
	s.acker, _ = m.(Acker)
	s.over, _ = m.(Overtaker)
	s.some, _ = m.(Arriver)
	s.hold, _ = m.(Holder)
	_, s.copies = m.(Copier)
	return s
}

func (s *slot) blackHole() bool { return s.hole != nil && s.hole.BlackHole() }

func (s *slot) changed() bool { return s.dirty == nil || s.dirty.Changed() }

func (s *slot) lost() uint64 {
	if s.loss == nil {
		return 0
	}
	return s.loss.Lost()
}

func (s *slot) inFlight() int {
	if s.fly == nil {
		return 0
	}
	return s.fly.InFlight()
}
