package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Room limits the size and content of the next payload.
type Room = recovery.Room

// Content is the kinds of traffic in a payload.
type Content = recovery.Content

// A Source provides the payloads that a session sends, and handles those of the peer. The
// session calls its methods under the carrier's lock, so they must not block. now never
// decreases.
type Source interface {
	// AppendPayload appends the next payload to buf if one may be sent now. A payload has 1 to
	// room.Max bytes. token identifies it in Acked and Lost, and content tells which kinds of
	// traffic are in it.
	//
	// A packet may carry several payloads, so the session calls AppendPayload again with the
	// remaining room. If ok is false, the session does not ask again with as much room before it
	// has called another method or the owner has called [Session.Wake].
	AppendPayload(now time.Time, buf []byte, room Room) (b []byte, token uint64, content Content, ok bool)

	// Waiting returns the approximate number of bytes waiting to be sent, or 0 if it's unknown.
	Waiting() int

	// Acked is called when a payload has arrived, and Lost when its packet is declared lost.
	// Each is called at most once per payload. Acked may follow Lost if the packet was only
	// late.
	Acked(now time.Time, token uint64)
	Lost(now time.Time, token uint64)

	// Receive handles one of the peer's payloads, which it must not retain. Payloads may arrive
	// in any order, but each is received only once.
	Receive(now time.Time, payload []byte)

	// Moved is called when packets begin to take another path, to which earlier measurements do
	// not apply.
	Moved(now time.Time)

	// Advance runs the timers that are due. Afterward, NextTimeout returns a time after now, or
	// none.
	Advance(now time.Time)

	// NextTimeout returns when Advance must be called. ok is false if no timer is running.
	NextTimeout() (at time.Time, ok bool)
}
