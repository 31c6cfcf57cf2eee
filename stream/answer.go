package stream

import (
	"time"

	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// An answer holds the messages that an incoming transfer sends to its sender: first the offset at
// which to continue, then credit, and finally the end. The writer and the application determine
// what they contain, and the world's goroutine sends them.
type answer struct {
	in *incoming

	// Guarded by incoming.mu.
	reply   *accept // answer to the header; nil until the writer knows how much is stored
	resumed int64   // bytes or elements stored when the transfer began, for Progress
	credit  credit  // limits what the sender may send; set when reply is sent
	remind  alarm   // wakes the peer to report the progress

	replied bool // reply was sent; written by the world's goroutine under incoming.mu

	// Used by the world's goroutine only.
	reserved int64 // the first credit, in bytes of content; set by receiver.reserve
	promised int64 // bytes of memory that the account has promised for the credit
}

// resume lets the sender continue as described by reply, whose offset, index and hasAll the caller
// has set. It is called once, by the writer.
func (a *answer) resume(reply accept) {
	in := a.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.finished {
		return
	}
	in.arrival.resume(reply.offset)
	in.arrival.failIfStoreHasMore(reply.index)
	if in.finished {
		return
	}
	a.resumed = in.header.progress(reply.offset, reply.index)
	reply.id = in.header.id
	a.reply = &reply
	in.peer.wake()
}

// send sends the message that is due, if there is one. over means that it was the last message
// about the transfer.
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
	case !a.replied: // the writer doesn't know yet how much is stored
		return false, false, nil
	}
	sent, err = a.grant(pipe, now)
	if a.credit.consumed != a.credit.reported {
		a.remind.set(in.peer, progressInterval) // it's too little, or too early, for a report
	}
	return sent, false, err
}

// accept answers the header with the first credit. The caller holds mu.
func (a *answer) accept(pipe *rpc.Actor, now time.Time) error {
	arrival := &a.in.arrival
	a.replied = true
	arrival.uncountEarly()

	// Until now the sender could not continue, perhaps because the transfer was waiting for memory,
	// so measure its use of the credit from now on.
	arrival.usage = newUsage(time.Now(), arrival.parts.next)
	a.credit = newCredit(now, a.passed(), a.reserved, a.in.peer.streams.config.maxPending())
	arrival.parts.limit = max(arrival.parts.limit, a.credit.limit)

	// The limit may be lower than what the sender has already sent, because no more memory than
	// this has been promised.
	a.reply.limit = a.credit.limit
	extend.Owe(a.in.peer.conn, 1) // the message that ends the transfer
	return sendAccept.call(pipe, *a.reply)
}

// grant sends a grant if more credit or a report of progress is due. The caller holds mu.
func (a *answer) grant(pipe *rpc.Actor, now time.Time) (sent bool, err error) {
	in, s := a.in, a.in.peer.streams
	moved := a.credit.due() || a.credit.consumed != a.credit.reported
	if moved && !a.cover(a.credit.ahead) {
		return false, nil // there isn't enough memory, so the sender has to wait
	}
	growTime := func() time.Duration { return s.growTime(in.peer.conn) }
	limit, due := a.credit.grant(now, growTime, a.cover)
	if !due {
		return false, nil
	}
	in.arrival.parts.limit = max(in.arrival.parts.limit, limit)
	return true, sendGrant.call(pipe, grant{id: in.header.id, limit: limit, acked: in.delivery.consumedUnits})
}

// cover gets a promise from the account for the memory that is still missing for ahead bytes of
// credit. If there isn't enough, it returns false and gets no promise. It must be called on the
// world's goroutine, with or without mu.
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

// markConsumed is called when the application has consumed something. It wakes the world
// immediately if a grant is due, and in any case after progressInterval, to report the progress.
// The caller holds mu.
func (a *answer) markConsumed() {
	if a.credit.consume(a.passed()) {
		a.in.peer.wake()
	}
	a.remind.set(a.in.peer, progressInterval)
}

// passed returns the offset up to which content needs no more credit, because the store had it or
// because the application has consumed it, perhaps even before the header was answered. The caller
// holds mu.
func (a *answer) passed() int64 { return max(a.in.delivery.consumedBytes, a.in.arrival.parts.base) }
