package stream

import (
	"time"

	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// An answer sends the control messages of an incoming transfer to its sender: the offset to
// continue from, the credit, and the end. The writer gets the offset from the store, and the
// world's goroutine sends the messages.
type answer struct {
	in *incoming

	// Guarded by incoming.mu.
	reply   *accept // answer to the header; nil until the writer knows how much is stored
	resumed int64   // bytes or elements stored when the transfer began, for Progress
	credit  credit
	remind  alarm // makes a tick report what was consumed

	// Used by the world's goroutine only.
	replied  bool  // reply was sent
	reserved int64 // initial credit in bytes of content; set by receiver.reserve
	promised int64 // memory in bytes that the account has promised for the credit
}

// resume lets the sender continue at offset, where element index begins in an array. have
// means that the store has all content. The writer calls resume once.
func (a *answer) resume(offset, index int64, have bool) {
	in := a.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.finished {
		return
	}
	in.arrival.resume(offset)
	in.arrival.checkStored(index)
	if in.finished {
		return
	}
	a.resumed = in.header.progress(offset, index)
	a.reply = &accept{id: in.header.id, offset: offset, index: index, have: have}
	in.peer.wake()
}

// send sends the message that is due, if there is one. over is true if it was the last message
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
	case !a.replied:
		return false, false, nil
	}
	sent, err = a.grant(pipe, now)
	if a.credit.consumed != a.credit.reported { // too little, or too soon, for a report
		a.remind.set(in.peer, progressInterval)
	}
	return sent, false, err
}

// accept answers the header with the first credit. The caller holds mu.
func (a *answer) accept(pipe *rpc.Actor, now time.Time) error {
	arrival := &a.in.arrival
	a.replied = true
	arrival.uncountEarly()
	// Until now the sender could not continue, perhaps because the transfer waited for memory.
	arrival.usage = newUsage(time.Now(), arrival.parts.next)
	a.credit = newCredit(now, a.passed(), a.reserved, a.in.peer.streams.config.maxPending())
	arrival.parts.limit = max(arrival.parts.limit, a.credit.limit)
	a.reply.limit = a.credit.limit // may be less than what was in flight before: no more was promised
	extend.Owe(a.in.peer.conn, 1)  // the message of the transfer's end
	return sendAccept.call(pipe, *a.reply)
}

// grant sends credit or a report of progress, if one is due. The caller holds mu.
func (a *answer) grant(pipe *rpc.Actor, now time.Time) (sent bool, err error) {
	in, s := a.in, a.in.peer.streams
	moved := a.credit.due() || a.credit.consumed != a.credit.reported
	if moved && !a.cover(a.credit.ahead) {
		return false, nil // there is no memory, so the sender must wait
	}
	limit, due := a.credit.next(now, func() time.Duration { return s.growTime(in.peer.conn) }, a.cover)
	if !due {
		return false, nil
	}
	in.arrival.parts.limit = max(in.arrival.parts.limit, limit)
	return true, sendGrant.call(pipe, grant{id: in.header.id, limit: limit, acked: in.delivery.units})
}

// cover makes the account promise the memory for ahead bytes of credit, less what it has
// promised already. It reports whether all of that memory is promised. cover is called on the
// world's goroutine only, with or without mu.
func (a *answer) cover(ahead int64) bool {
	lacks := heldBytes(ahead) - a.promised
	if lacks <= 0 {
		return true
	}
	if !a.in.peer.account.Promise(lacks) {
		return false
	}
	a.promised += lacks
	return true
}

// consumed is called when the application has consumed something. It wakes the world if a
// grant is due. Otherwise it wakes the world later, for a report of progress. The caller holds
// mu.
func (a *answer) consumed() {
	if a.credit.consume(a.passed()) {
		a.in.peer.wake()
	}
	a.remind.set(a.in.peer, progressInterval)
}

// passed returns the offset before which content needs no credit. The store had that content,
// or the application has consumed it, perhaps before the header was answered. The caller holds
// mu.
func (a *answer) passed() int64 { return max(a.in.delivery.position, a.in.arrival.parts.base) }
