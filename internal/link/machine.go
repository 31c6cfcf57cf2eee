package link

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A Machine is a protocol without clock, goroutine or lock. All methods are
// called under the link's lock.
type Machine interface {
	// Receive handles a datagram, which then belongs to the machine, unless that is an
	// [Extension]. An error is a violation and ends the connection. If it has a method
	// CloseCode() (uint64, string), that returns the code and reason to close with.
	Receive(now time.Time, datagram []byte) error

	// AppendPacket builds the next datagram, of at most size bytes, if one may be sent now.
	AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool)

	// Unsent takes back the last datagram of AppendPacket, which was not sent.
	Unsent(number uint64)

	// Advance runs the timers that are due. It is called before every
	// AppendPacket. An error ends the connection, like one of Receive.
	// Afterwards NextTimeout is after now, or a packet can be built.
	Advance(now time.Time) error

	// NextTimeout returns when Advance must be called; ok is false if no timer runs.
	NextTimeout() (time.Time, bool)

	// Content returns what the last datagram of AppendPacket holds.
	Content() recovery.Content

	// Queued returns how many bytes of the owner's data were never sent.
	Queued() int

	// SetPath sets what is known of the path. If its Epoch has risen, datagrams
	// take another path from now on.
	SetPath(now time.Time, p recovery.Path)

	// Fate reports whether a datagram arrived. It is called only while the path's Fates
	// is set. An arrival frees nothing, because the peer's machine sends acks of its own.
	Fate(now time.Time, number uint64, arrived bool)

	// SetWindow sets how many bytes the machine may have in flight: the path's
	// congestion window minus what the other machines have in flight, but at
	// least half of the window. More would wait inside the carrier.
	SetWindow(bytes int)

	// Wake reports whether something has happened for which the owner waits, and clears that.
	Wake() bool

	// Changed reports whether, since the last call, the owner has done
	// something that may allow a packet, move the next timeout, make Wake true
	// or make Advance fail, or Receive has allowed a packet.
	Changed() bool

	// Drained reports whether no reliable data is unsent or unacknowledged.
	Drained() bool

	// InFlight returns how many bytes the machine has in flight now.
	InFlight() int

	// Lost returns how many packets the machine has counted as lost so far. Losses shorten bursts.
	Lost() uint64

	// Waiting reports whether unreliable data, and bulk, could be sent now if they
	// were not held back. Hold sets whether to hold each of them back until the
	// next call: because of [Config].Rate, or because the carrier has no room.
	Waiting() (unreliable, bulk bool)
	Hold(unreliable, bulk bool)

	// FirstByte returns the first byte of the datagrams for this machine. It never changes.
	FirstByte() byte
}

// Play is the first machine. Its packets have consecutive numbers.
type Play interface {
	Machine

	// ReceiveLent is Receive for a datagram that still belongs to the caller:
	// the machine copies what it keeps.
	ReceiveLent(now time.Time, datagram []byte) error

	// Acked returns one above the number of the newest packet that the peer has acknowledged.
	Acked() uint64

	// Overtaken is called when a datagram of an [Extension], which was sent at
	// sent, has arrived: packets of play sent before it may be lost.
	Overtaken(now, sent time.Time)

	// BlackHole reports whether three packets in a row above [SafeDatagram]
	// bytes were lost while smaller ones were acknowledged, and clears that.
	BlackHole() bool

	// Cork switches a cork on or off. Close uncorks, so that queued data can drain.
	Cork(on bool)
}

// An Extension is a machine after the first. Its Receive keeps nothing of the
// datagram, which still belongs to the caller.
type Extension interface {
	Machine

	// SecondByte returns another first byte of datagrams for this machine, or
	// FirstByte if there is none. It never changes.
	SecondByte() byte

	// Arrived returns when the newest datagram that the peer has acknowledged
	// was sent, or zero if there is none.
	Arrived() time.Time
}

// slot is a machine and what the link keeps for it.
type slot struct {
	Machine
	first, second byte      // first bytes of its datagrams; equal if it has one kind
	extension     Extension // the machine; nil for the first
	arrived       time.Time // time of the last Overtaken because of this machine
	window        int       // argument of the last SetWindow
}

// overtakes returns when the extension's newest acknowledged datagram was sent,
// and whether that has changed since the last call.
func (s *slot) overtakes() (at time.Time, news bool) {
	if at = s.extension.Arrived(); !at.After(s.arrived) {
		return at, false
	}
	s.arrived = at
	return at, true
}
