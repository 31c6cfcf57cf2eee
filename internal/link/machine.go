package link

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A Machine is a protocol without a clock, a goroutine or a lock. The link calls all of its methods
// with the link's lock held.
type Machine interface {
	// Receive handles a datagram, which from then on belongs to the machine, unless that is an
	// [Extension].
	//
	// An error means that the peer has violated the protocol, and ends the connection. If the
	// error has a method CloseCode() (uint64, string), we close with the code and the reason that
	// it returns.
	Receive(now time.Time, datagram []byte) error

	// AppendPacket builds the next datagram if one may be sent now. It has at most size bytes.
	AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool)

	// Unsent takes back the newest datagram from AppendPacket, because it couldn't be sent.
	Unsent(number uint64)

	// Advance runs the timers that are due. It is called before every AppendPacket. Afterwards
	// either a packet can be built, or NextTimeout returns a time after now. An error ends the
	// connection, just like one from Receive.
	Advance(now time.Time) error

	// NextTimeout returns when Advance must be called next. ok is false if no timer is running.
	NextTimeout() (time.Time, bool)

	// Content says what is in the newest datagram from AppendPacket.
	Content() recovery.Content

	// Queued returns how many bytes of the owner's data have never been sent.
	Queued() int

	// SetPath tells the machine what we know of the path. Datagrams take another path from now on
	// if its Epoch is higher than before.
	SetPath(now time.Time, p recovery.Path)

	// Fate tells the machine whether a datagram arrived or was lost. It is called only while the
	// path's Fates is set. A datagram that arrived must not be freed yet, since it's the peer's
	// machine that acknowledges what is in it.
	Fate(now time.Time, number uint64, arrived bool)

	// SetWindow limits how many bytes the machine may have in flight. Anything more would only
	// wait inside the carrier. The limit is the part of the path's congestion window that other
	// machines don't have in flight, but at least half of the window.
	SetWindow(bytes int)

	// Wake reports whether something has happened that the owner is waiting for. Asking clears
	// the answer.
	Wake() bool

	// Changed reports whether the link must look at the machine again. Asking clears the answer.
	//
	// It must, if the owner did something that may allow a packet, move the next timeout, make
	// Wake true or make Advance fail, or if there is a packet to send because of a Receive.
	Changed() bool

	// Drained reports whether all reliable data has been sent and acknowledged.
	Drained() bool

	// InFlight returns how many bytes are in flight.
	InFlight() int

	// Lost returns how many packets have been lost so far. Losses make our bursts shorter.
	Lost() uint64

	// Waiting reports whether there is unreliable data, and bulk, that could be sent now if it
	// weren't held back.
	//
	// Hold sets which of them to hold back until it is called again. The reason may be
	// [Config].Rate, or a carrier without room.
	Waiting() (unreliable, bulk bool)
	Hold(unreliable, bulk bool)

	// FirstByte returns the byte with which datagrams for this machine begin. It never changes.
	FirstByte() byte
}

// Play is the first machine, which carries the game's own traffic. It numbers its packets
// consecutively.
type Play interface {
	Machine

	// ReceiveLent is like Receive, but the datagram stays the caller's. The machine copies what
	// it keeps.
	ReceiveLent(now time.Time, datagram []byte) error

	// Acked returns one more than the number of the newest packet that the peer has acknowledged.
	Acked() uint64

	// Overtaken is called when a datagram of an [Extension] is known to have arrived, which left
	// at the time sent. Packets of play that left before it may be lost.
	Overtaken(now, sent time.Time)

	// BlackHole reports whether three packets in a row with more than [SafeDatagram] bytes were
	// lost while smaller ones were acknowledged. Asking clears the answer.
	BlackHole() bool

	// Cork(true) makes the machine gather what it is given instead of sending it, until
	// Cork(false). Close uncorks, because what is queued has to drain.
	Cork(on bool)
}

// An Extension is any machine after the first. Its Receive keeps nothing of the datagram, which
// stays the caller's.
type Extension interface {
	Machine

	// SecondByte returns another byte with which datagrams for this machine may begin, or the
	// same as FirstByte if there's only one. It never changes.
	SecondByte() byte

	// Arrived returns when the newest of the acknowledged datagrams was sent, or the zero time if
	// the peer has acknowledged none.
	Arrived() time.Time
}

// A slot is a machine with what the link knows about it.
type slot struct {
	Machine
	first, second byte      // what its datagrams begin with; the same if there's only one
	extension     Extension // the same machine; nil for the first
	arrived       time.Time // send time that this machine last gave us for Overtaken
	window        int       // set by the last SetWindow
}

// takeArrival returns when the newest of the extension's acknowledged datagrams was sent. isNew is
// true if no earlier call has returned that time.
func (s *slot) takeArrival() (at time.Time, isNew bool) {
	at = s.extension.Arrived()
	if !at.After(s.arrived) {
		return at, false
	}
	s.arrived = at
	return at, true
}

// bulkWaits reports whether the machine has bulk that could be sent.
func (s slot) bulkWaits() bool {
	_, bulk := s.Waiting()
	return bulk
}
