package stream

import (
	"time"

	"github.com/quivernet/quiver/rpc"
)

// answer lets the sender go on at an offset.
func (in *incoming) answer(offset, index int64, have bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.finished {
		return
	}
	before := in.parts.held
	in.parts.resume(offset)
	in.peer.account.MustHold(in.parts.held - before)
	if in.checkStored(index); in.finished {
		return
	}
	if in.resumed = offset; in.header.kind == kindArray {
		in.resumed = index
	}
	in.reply = &accept{id: in.header.id, offset: offset, index: index, have: have}
	in.peer.wake()
}

// sendControl sends the message that is due. After the last word, over is true.
func (in *incoming) sendControl(control *rpc.Actor, now time.Time) (sent, over bool, err error) {
	if !in.known {
		return false, false, nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.finished && in.err != nil:
		return true, true, sendReject.call(control, reject{in.header.id, failureOf(in.err).stop()})
	case in.reply != nil && !in.replied:
		in.replied = true
		in.peer.receiver.ahead -= in.ahead
		in.ahead = 0
		in.credit = newCredit(now, in.passed(), in.reserved, in.peer.streams.config.maxPending())
		in.parts.limit = max(in.parts.limit, in.credit.limit)
		in.reply.limit = in.parts.limit
		return true, false, sendAccept.call(control, *in.reply)
	case in.finished:
		return true, true, sendDone.call(control, done{in.header.id})
	case !in.replied:
		return false, false, nil
	}
	return in.sendGrant(control, now)
}

// take promises n more bytes of window. The lock is held.
func (in *incoming) take(n int64) bool {
	memory := heldBytes(n) - heldBytes(0)
	if !in.peer.account.Promise(memory) {
		return false
	}
	in.promised += memory
	return true
}

func (in *incoming) sendGrant(control *rpc.Actor, now time.Time) (sent, over bool, err error) {
	s := in.peer.streams
	limit, due := in.credit.next(now, func() time.Duration { return s.pace(in.peer.conn) }, in)
	if !due {
		return false, false, nil
	}
	in.parts.limit = max(in.parts.limit, limit)
	m := grant{id: in.header.id, limit: in.parts.limit, acked: in.position}
	if in.header.kind == kindArray {
		m.acked = in.elements
	}
	return true, false, sendGrant.call(control, m)
}
