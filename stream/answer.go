package stream

import (
	"time"

	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// An answer decides which message an incoming transfer sends next to its sender: first the offset
// at which to continue, then credit, and finally the end. The writer and the application determine
// what they contain, and the world's goroutine sends them.
type answer struct {
	in *incoming

	// Guarded by incoming.mu, on any goroutine.
	reply   *accept // answer to the header; nil until the writer knows how much is stored
	resumed int64   // bytes or elements stored when the transfer began, for Progress
	credit  credit  // limits what the sender may send; set when reply is sent
	remind  alarm   // wakes the peer to report the progress

	// Written under incoming.mu, and only by the world's goroutine, which may therefore read it
	// without mu.
	replied bool // reply was sent

	// Used by the world's goroutine only, with or without incoming.mu.
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
	if err := in.arrival.checkStored(reply.index); err != nil {
		in.finishLocked(err)
		return
	}
	a.resumed = in.header.progress(reply.offset, reply.index)
	reply.id = in.header.id
	a.reply = &reply
	in.peer.wake()
}

// sendNext sends the message that is due, if there is one. isLast means that no more messages about
// the transfer will follow.
func (a *answer) sendNext(pipe *rpc.Actor, now time.Time) (sent, isLast bool, err error) {
	in := a.in
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case !in.known: // nothing is sent before the header has arrived
		return false, false, nil
	case in.err != nil:
		return true, true, rejectMessage.send(pipe, failureOf(in.err).stop(in.header.id))
	case a.reply != nil && !a.replied:
		return true, false, a.sendReply(pipe, now)
	case in.finished:
		return true, true, doneMessage.send(pipe, done{in.header.id})
	case !a.replied: // the writer doesn't know yet how much is stored
		return false, false, nil
	}
	sent, err = a.sendGrantIfDue(pipe, now)
	if a.credit.unreported() {
		// It's too little, or too early, for a report, or the credit that a report implies isn't
		// covered by memory.
		a.remind.set(in.peer, progressInterval)
	}
	return sent, false, err
}

// sendReply answers the header with the first credit. It sends the reply that resume has filled in,
// after setting its limit. The caller holds mu.
func (a *answer) sendReply(pipe *rpc.Actor, now time.Time) error {
	a.replied = true
	a.credit = newCredit(now, a.passed(), a.reserved, a.in.peer.streams.config.maxPending())
	a.in.arrival.onReply(a.credit.limit)

	// The limit may be lower than what the sender has already sent, because no more memory than
	// this has been promised.
	a.reply.limit = a.credit.limit
	extend.Owe(a.in.peer.conn, 1) // the message that ends the transfer
	return acceptMessage.send(pipe, *a.reply)
}

// sendGrantIfDue sends a grant if more credit or a report of progress is due. The caller holds mu.
func (a *answer) sendGrantIfDue(pipe *rpc.Actor, now time.Time) (sent bool, err error) {
	in := a.in
	mayBeDue := a.credit.due() || a.credit.unreported()
	if mayBeDue && !a.cover(a.credit.ahead) {
		return false, nil // there isn't enough memory, so the sender has to wait
	}
	growTime := func() time.Duration { return in.peer.streams.growTime(in.peer.conn) }
	limit, due := a.credit.nextLimit(now, growTime, a.cover)
	if !due {
		return false, nil
	}
	in.arrival.raiseLimit(limit)
	return true, grantMessage.send(pipe, grant{id: in.header.id, limit: limit, acked: in.delivery.consumedUnits})
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

// renewPromise gets the memory back that takeBack has withdrawn because the sender wasn't using it,
// if there is enough. It's called on the world's goroutine when the sender uses its credit
// again. The caller holds mu.
func (a *answer) renewPromise() {
	if a.replied {
		a.cover(a.credit.ahead)
	}
}

// withdraw gives back the memory that was promised for the credit, except for needed bytes. Like
// cover, it must be called on the world's goroutine, with or without mu.
func (a *answer) withdraw(needed int64) {
	if unused := a.promised - needed; unused > 0 {
		a.in.peer.account.Withdraw(unused)
		a.promised = needed
	}
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
