package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Room is what a payload may take.
type Room = recovery.Room

// Mover is an optional part of a [Source], which hears that the path has become another one.
type Mover interface {
	Moved(now time.Time)
}

// Source gives a session payloads and takes those of the peer. It is a machine like the session that calls it: no method
// may block, and now never runs back. Calls come from under the carrier's lock only.
type Source interface {
	// AppendPayload appends the next payload to buf, at least one and at most room.Max bytes, when one may leave now. token is
	// how its fate will be told, bulk whether it is any. Not ok: nothing that fits may leave until one of the other methods,
	// or [Session.Wake], is called. A packet with room left asks again with less of it.
	AppendPayload(now time.Time, buf []byte, room Room) (b []byte, token uint64, bulk, ok bool)

	// Waiting returns about how many bytes are to be sent, 0 = unknown. It is asked before the first packets of a transfer.
	Waiting() int

	// Acked says that the payload arrived, Lost that it is to be sent again. Each is called at most once for a payload;
	// Acked may come after Lost, when the packet was late and not lost.
	Acked(now time.Time, token uint64)
	Lost(now time.Time, token uint64)

	// Receive takes a payload of the peer, once each and in any order. It must not keep it.
	Receive(now time.Time, payload []byte)

	// Advance runs the timers that are due. Afterwards NextTimeout lies after now, or there is none.
	Advance(now time.Time)
	NextTimeout() (time.Time, bool)
}
