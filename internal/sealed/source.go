package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Room limits the next payload.
type Room = recovery.Room

// Content is what a payload holds.
type Content = recovery.Content

// Source has the payloads that a session sends, and takes those of the peer. It is a machine like the session that calls it, under
// the carrier's lock: no method may block, and now never runs back.
type Source interface {
	// AppendPayload appends the next payload, of 1 to room.Max bytes, to buf, if one may leave now. Acked and Lost name it by token;
	// content says what it holds. When it is not ok, nothing that fits may leave until another method, or [Session.Wake], was
	// called. For a packet that has room left the session calls it again, with less room.
	AppendPayload(now time.Time, buf []byte, room Room) (b []byte, token uint64, content Content, ok bool)

	// Waiting returns about how many bytes wait to be sent, 0 = unknown. It is called before the first packets of a transfer.
	Waiting() int

	// Acked says that a payload arrived, Lost that it must be sent again. Each is called at most once for a payload. Acked may
	// follow Lost: then the packet was only late.
	Acked(now time.Time, token uint64)
	Lost(now time.Time, token uint64)

	// Receive takes a payload of the peer, which it must not keep. Each comes once, in any order.
	Receive(now time.Time, payload []byte)

	// Moved says that the path has changed: what was measured is of the old one.
	Moved(now time.Time)

	// Advance runs the timers that are due. Afterwards NextTimeout lies after now, or there is none.
	Advance(now time.Time)
	NextTimeout() (time.Time, bool)
}
