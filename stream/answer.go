package stream

import (
	"time"

	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// An answer holds the messages that an incoming transfer sends to its sender: first where to
// continue, then credit, and finally the end. The writer and the application set their contents,
// and the world's goroutine sends them.
type answer struct {
	in *incoming

	// Guarded by incoming.mu.
	reply   *accept // answer to the header; nil until the writer knows how much is stored
	resumed int64   // bytes or elements stored when the transfer began, for Progress
	credit  credit  // limits what the sender may send; set when reply is sent
	remind  alarm   // makes a tick report the progress

	// Used by the world's goroutine only.
	replied  bool  // reply was sent
	reserved int64 // the first credit, in bytes of content; set by receiver.reserve
	promised int64 // bytes of memory that the account has promised for the credit
}

// resume lets the sender continue as reply says, of which the caller sets offset, index and hasAll:
// for an array, offset is where the element with the number index begins. The writer calls resume
// once.
func (a *answer) resume(reply accept) {
	in := a.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.finished {
		return
	}
	in.arrival.resume(reply.offset)
	in.arrival.checkStored(reply.index)
	if in.finished { // because the store has more than the sender
		return
	}
	a.resumed = in.header.progress(reply.offset, reply.index)
	reply.id = in.header.id
	a.reply = &reply
	in.peer.wake()
}

// send sends the message that is due, if there is one. over is true if that was the last
// message about the transfer.
func (a *answer) send(pipe *rpc.Actor, now time.Time) (sent, over bool, err error) {
	in := a.in
	if !in.known {
		return false, false, nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.finished && in.err != nil:
		return true, true, sendReject.call(pipe, failureOf(in.err).stop(in.header.id))
	case a.reply != nil && !a.replied:
		return true, false, a.accept(pipe, now)
	case in.finished:
		return true, true, sendDone.call(pipe, done{in.header.id})
	case !a.replied:
		// The writer doesn't know yet how much is stored.
		return false, false, nil
	}
	sent, err = a.grant(pipe, now)
	if a.credit.consumed != a.credit.reported {
		// It was too little or too early for a report, so report it later.
		a.remind.set(in.peer, progressInterval)
	}
	return sent, false, err
}

// accept answers the header with the first credit. The caller holds mu.
func (a *answer) accept(pipe *rpc.Actor, now time.Time) error {
	arrival := &a.in.arrival
	a.replied = true
	arrival.uncountEarly()

	// Until now the sender could not go on, perhaps because the transfer was waiting for memory.
	// Measure its use of the credit only from now on.
	arrival.usage = newUsage(time.Now(), arrival.parts.next)
	a.credit = newCredit(now, a.passed(), a.reserved, a.in.peer.streams.config.maxPending())
	arrival.parts.limit = max(arrival.parts.limit, a.credit.limit)

	// The limit may be lower than what the sender has sent already, because we have promised no
	// more memory than this.
	a.reply.limit = a.credit.limit
	extend.Owe(a.in.peer.conn, 1) // the message that ends the transfer
	return sendAccept.call(pipe, *a.reply)
}

// grant sends credit or a report of progress, if either is due. The caller holds mu.
func (a *answer) grant(pipe *rpc.Actor, now time.Time) (sent bool, err error) {
	in, s := a.in, a.in.peer.streams
	moved := a.credit.due() || a.credit.consumed != a.credit.reported
	if moved && !a.cover(a.credit.ahead) {
		return false, nil // there isn't enough memory, so the sender must wait
	}
	growTime := func() time.Duration { return s.growTime(in.peer.conn) }
	limit, due := a.credit.grant(now, growTime, a.cover)
	if !due {
		return false, nil
	}
	in.arrival.parts.limit = max(in.arrival.parts.limit, limit)
	return true, sendGrant.call(pipe, grant{id: in.header.id, limit: limit, acked: in.delivery.consumedUnits})
}

// cover has the account promise whatever memory is still missing for ahead bytes of credit. If
// there isn't enough, it returns false and promises nothing. It must be called on the world's
// goroutine, with or without mu.
func (a *answer) cover(ahead int64) bool {
	missing := heldBytes(ahead) - a.promised
	if missing <= 0 {
		return true
	}
	if !a.in.peer.account.Promise(missing) {
		return false
	}
	a.promised += missing
	return true
}

// markConsumed is called when the application has consumed something. If a grant is due, it wakes
// the world at once. Otherwise it does so some time later, for a report of progress. The caller
// holds mu.
func (a *answer) markConsumed() {
	if a.credit.consume(a.passed()) {
		a.in.peer.wake()
	}
	a.remind.set(a.in.peer, progressInterval)
}

// passed returns the offset up to which content needs no more credit, because the store had it or
// because the application has consumed it. The application may have consumed content even before
// the header was answered. The caller holds mu.
func (a *answer) passed() int64 { return max(a.in.delivery.consumedBytes, a.in.arrival.parts.base) }
