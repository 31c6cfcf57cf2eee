package link

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A Machine is a protocol without a clock, a goroutine or a lock. The link calls all of its methods
// with the link's lock held.
type Machine interface {
	// Receive handles a datagram. The datagram then belongs to the machine, unless the machine
	// is an [Extension].
	//
	// An error means that the peer has violated the protocol, and ends the connection. If the error
	// has a method CloseCode() (uint64, string), the link closes with the code and the reason that
	// the method returns.
	Receive(now time.Time, datagram []byte) error

	// AppendPacket builds the next datagram, of at most size bytes, if one may be sent now.
	AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool)

	// Unsent takes back the newest datagram from AppendPacket, because it couldn't be sent.
	Unsent(number uint64)

	// Advance runs the timers that are due. It is called before every AppendPacket. After Advance,
	// either a packet can be built or NextTimeout returns a time later than now. An error ends the
	// connection, just as an error from Receive does.
	Advance(now time.Time) error

	// NextTimeout returns when Advance must be called next. ok is false if no timer is running.
	NextTimeout() (time.Time, bool)

	// Content describes the newest datagram from AppendPacket.
	Content() recovery.Content

	// Queued returns the number of bytes of the owner's data that have never been sent.
	Queued() int

	// SetPath tells the machine what we know about the path. If the Epoch is higher than before,
	// datagrams take another path from now on.
	SetPath(now time.Time, p recovery.Path)

	// Fate tells the machine whether a datagram arrived or was lost. It is called only while the
	// path's Fates is set. The machine must not free the content of a datagram that arrived,
	// because that is acknowledged by the peer's machine rather than by its carrier.
	Fate(now time.Time, number uint64, arrived bool)

	// SetWindow limits the bytes that the machine may have in flight, because any more would only
	// wait inside the carrier. The limit is what the other machines' bytes in flight leave of the
	// path's congestion window, but at least half of the window.
	SetWindow(bytes int)

	// Wake reports whether something has happened that the owner is waiting for. Asking clears
	// the answer.
	Wake() bool

	// Changed reports whether the link must look at the machine again. Asking clears the answer.
	//
	// It returns true if the owner did something that may allow a packet, move the next timeout,
	// make Wake true or make Advance fail, or if there is a packet to send because of a Receive.
	Changed() bool

	// Drained reports whether all reliable data has been sent and acknowledged.
	Drained() bool

	// InFlight returns how many bytes are in flight.
	InFlight() int

	// Lost returns the number of packets that have been lost so far. Losses make our bursts
	// shorter.
	Lost() uint64

	// Waiting reports whether the machine has unreliable data, and whether it has bulk, that only
	// Hold keeps it from sending now.
	//
	// Hold tells the machine which of the two not to send until the next call, either because of
	// [Config].Rate or because the carrier has no room.
	Waiting() (unreliable, bulk bool)
	Hold(unreliable, bulk bool)

	// FirstByte returns the first byte of datagrams for this machine. It never changes.
	FirstByte() byte
}

// Play is the first machine, which carries the game's own traffic. It numbers its packets
// consecutively.
type Play interface {
	Machine

	// ReceiveLent is like Receive, but the datagram still belongs to the caller. The machine
	// copies what it keeps.
	ReceiveLent(now time.Time, datagram []byte) error

	// Acked returns one more than the number of the newest packet that the peer has acknowledged.
	Acked() uint64

	// Overtaken is called when a datagram of an [Extension], sent at the time sent, is known to
	// have arrived. Packets of play that were sent before it may be lost.
	Overtaken(now, sent time.Time)

	// BlackHole reports whether three consecutive packets larger than [SafeDatagram] were lost
	// while smaller packets were acknowledged. Asking clears the answer.
	BlackHole() bool

	// Cork(true) makes the machine gather what it is given instead of sending it, until
	// Cork(false). Close uncorks the machine, because its queue has to drain.
	Cork(on bool)
}

// An Extension is any machine after the first. Its Receive doesn't retain the datagram, which still
// belongs to the caller.
type Extension interface {
	Machine

	// OtherFirstByte returns the other first byte of datagrams for this machine, or the same as
	// FirstByte if there's only one. It never changes.
	OtherFirstByte() byte

	// Arrived returns the time when the newest acknowledged datagram was sent, or the zero time if
	// the peer hasn't acknowledged any.
	Arrived() time.Time
}

// A slot holds a machine and what the link knows about it.
type slot struct {
	Machine
	first, second byte      // first bytes of its datagrams; the same if there's only one
	extension     Extension // the same machine; nil for the first
	arrived       time.Time // newest result of takeArrival
	window        int       // set by the last SetWindow
}

// takeArrival returns the time when the extension's newest acknowledged datagram was sent. isNew is
// false if an earlier call returned that time or a later one.
func (s *slot) takeArrival() (at time.Time, isNew bool) {
	at = s.extension.Arrived()
	if !at.After(s.arrived) {
		return at, false
	}
	s.arrived = at
	return at, true
}

// hasBulk reports whether the machine has bulk that could be sent.
func (s slot) hasBulk() bool {
	_, bulk := s.Waiting()
	return bulk
}
