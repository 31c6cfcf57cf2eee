package link

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A Machine is a protocol without a clock, goroutine or lock. All methods are called under
// the link's lock.
type Machine interface {
	// Receive handles a datagram. The datagram then belongs to the machine, except in an
	// [Extension].
	//
	// An error is a violation by the peer and ends the connection. If the error has a method
	// CloseCode() (uint64, string), that method returns the code and reason to close with.
	Receive(now time.Time, datagram []byte) error

	// AppendPacket builds the next datagram, of at most size bytes, if one may be sent now.
	AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool)

	// Unsent takes back the last datagram from AppendPacket, which was not sent.
	Unsent(number uint64)

	// Advance runs the timers that are due. It is called before every AppendPacket. An error
	// ends the connection, like an error from Receive. After Advance, either NextTimeout
	// returns a time after now or a packet can be built.
	Advance(now time.Time) error

	// NextTimeout returns the time at which Advance must be called. ok is false if no timer
	// runs.
	NextTimeout() (time.Time, bool)

	// Content describes the last datagram from AppendPacket.
	Content() recovery.Content

	// Queued returns the number of bytes of the owner's data that were never sent.
	Queued() int

	// SetPath sets what is known about the path. If its Epoch has risen, datagrams take
	// another path from now on.
	SetPath(now time.Time, p recovery.Path)

	// Fate reports whether a datagram arrived or was lost. It is called only while the path's
	// Fates is set. An arrival frees nothing, because the peer's machine sends its own acks.
	Fate(now time.Time, number uint64, arrived bool)

	// SetWindow limits the bytes the machine may have in flight. The limit is the path's
	// congestion window minus the bytes other machines have in flight, but at least half of
	// the window. More bytes would wait inside the carrier.
	SetWindow(bytes int)

	// Wake reports whether something the owner waits for has happened, and clears the answer.
	Wake() bool

	// Changed reports whether the link must look at the machine again, and clears the answer.
	//
	// It is true if the owner did something that may allow a packet, move the next timeout,
	// make Wake true or make Advance fail, or if Receive allowed a packet.
	Changed() bool

	// Drained reports whether all reliable data was sent and acknowledged.
	Drained() bool

	// InFlight returns the number of bytes in flight.
	InFlight() int

	// Lost returns the number of packets counted as lost so far. Losses shorten bursts.
	Lost() uint64

	// Waiting reports whether unreliable data and bulk could be sent now if they were not
	// held back.
	//
	// Hold sets whether each of them is held back until the next call. The reason is
	// [Config].Rate, or a carrier without room.
	Waiting() (unreliable, bulk bool)
	Hold(unreliable, bulk bool)

	// FirstByte returns the first byte of datagrams for this machine. It never changes.
	FirstByte() byte
}

// Play is the first machine. It carries game traffic. Its packets have consecutive numbers.
type Play interface {
	Machine

	// ReceiveLent is Receive for a datagram that stays the caller's. The machine copies what
	// it keeps.
	ReceiveLent(now time.Time, datagram []byte) error

	// Acked returns the number of the newest packet the peer has acknowledged, plus one.
	Acked() uint64

	// Overtaken is called when a datagram that an [Extension] sent at time sent has arrived.
	// Packets of play sent before it may be lost.
	Overtaken(now, sent time.Time)

	// BlackHole reports whether three packets in a row above [SafeDatagram] bytes were lost
	// while smaller ones were acknowledged, and clears the answer.
	BlackHole() bool

	// Cork switches a cork on or off. Close uncorks so that queued data can drain.
	Cork(on bool)
}

// An Extension is any machine after the first. Its Receive keeps nothing of the datagram,
// which stays the caller's.
type Extension interface {
	Machine

	// SecondByte returns another first byte of datagrams for this machine, or FirstByte if
	// the machine has only one. It never changes.
	SecondByte() byte

	// Arrived returns the time at which the newest acknowledged datagram was sent, or zero if
	// the peer has acknowledged none.
	Arrived() time.Time
}

// slot is a machine and the link's state for it.
type slot struct {
	Machine
	first, second byte      // first bytes of its datagrams; equal if it has only one
	extension     Extension // the machine; nil for the first
	arrived       time.Time // send time passed to the last Overtaken because of this machine
	window        int       // argument of the last SetWindow
}

// overtakes returns the time at which the extension's newest acknowledged datagram was sent,
// and whether that time has changed since the last call.
func (s *slot) overtakes() (at time.Time, news bool) {
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
