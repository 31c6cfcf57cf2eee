package link

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Machine is a protocol without clock, goroutine or lock. All methods are called under the link's lock.
type Machine interface {
	// Receive takes a datagram, which then belongs to the machine, unless that is an [Extension]. An error is a violation and ends the
	// connection. If it has a method CloseCode() (uint64, string), that returns the code and reason to close with.
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

	// Changed reports whether, since the last call, the owner has done something that may let a packet leave, move the next timeout, make
	// Wake true or Advance fail, or Receive has let a packet leave.
	Changed() bool

	// Drained reports whether no reliable data is unsent or unacknowledged.
	Drained() bool

	// InFlight returns how many bytes the machine has in flight now.
	InFlight() int

	// Lost returns how many packets the machine has counted as lost so far. Losses make bursts shorter.
	Lost() uint64

	// Waiting reports whether unreliable data, and bulk, would leave now if they were not held back. Hold says whether to hold each of them
	// back, until the next call: for [Config].Rate, or because the carrier has no room.
	Waiting() (unreliable, bulk bool)
	Hold(unreliable, bulk bool)

	// FirstByte is the first byte of the datagrams that are for this machine. It never changes.
	FirstByte() byte
}

// Play is the first machine, whose packets have consecutive numbers.
type Play interface {
	Machine

	// ReceiveLent is Receive for a datagram that stays the caller's: it copies what is kept.
	ReceiveLent(now time.Time, datagram []byte) error

	// Acked returns one above the newest packet that the peer has acknowledged.
	Acked() uint64

	// Overtaken says that a datagram of an [Extension], which left at sent, has arrived: packets of play that left earlier may be lost.
	Overtaken(now, sent time.Time)

	// BlackHole reports, once, that three packets in a row above [SafeDatagram] bytes were lost while smaller ones were acknowledged.
	BlackHole() bool

	// Cork switches a cork on or off. A Close uncorks, so that what is queued can drain.
	Cork(on bool)
}

// Extension is a machine behind the first. Its Receive keeps nothing of the datagram, which stays the caller's.
type Extension interface {
	Machine

	// SecondByte is another first byte of datagrams that are for this machine; FirstByte when there is none. It never changes.
	SecondByte() byte

	// Arrived returns when the newest datagram left that the peer has acknowledged; zero when there is none.
	Arrived() time.Time
}

// slot is a machine in its place.
type slot struct {
	Machine
	first, second byte      // first bytes of its datagrams; the same when it has one kind
	extension     Extension // the machine, nil for the first
	arrived       time.Time // the newest Arrived that the first machine was told
	window        int       // by the last SetWindow
}

// overtakes returns when the newest datagram of an extension left that has arrived, and whether that is news.
func (s *slot) overtakes() (at time.Time, news bool) {
	if at = s.extension.Arrived(); !at.After(s.arrived) {
		return at, false
	}
	s.arrived = at
	return at, true
}
