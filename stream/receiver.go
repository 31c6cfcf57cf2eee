package stream

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// receiver has the transfers that one peer sends. It gives them the parts and messages that come, and bounds how many there are and
// how much they hold. It belongs to the world's goroutine.
type receiver struct {
	peer *Peer

	receiving  []*incoming // by id, from the first part or the header until this end sent its last word
	lastHeader uint64      // id in the newest header
	ahead      int64       // bytes of parts that came before this end answered their headers
	late       uint64      // parts and messages that were dropped because their transfer had ended

	writing atomic.Int32 // writers that run, those of transfers that have ended as well; safe from any goroutine
}

// deliver runs OnBatch and OnEnd of the transfers, in a tick: for each transfer one batch at least.
func (r *receiver) deliver() {
	left := false
	for _, in := range r.receiving {
		left = in.delivery.tick(r.peer.streams.timeUp) || left
	}
	if left {
		r.peer.wake()
	}
}

// sendControl sends the first message that is due, and reports whether there was one.
func (r *receiver) sendControl(pipe *rpc.Actor, now time.Time) (sent bool, err error) {
	for i, in := range r.receiving {
		sent, over, err := in.answer.send(pipe, now)
		if over {
			r.receiving = slices.Delete(r.receiving, i, i+1)
			r.peer.live.received(in)
			r.settle(in)
			in.delivery.tellEnd()
		}
		if sent || err != nil {
			return sent, err
		}
	}
	return false, nil
}

// end forgets all transfers, which have failed, and returns them.
func (r *receiver) end() []*incoming {
	receiving := r.receiving
	r.receiving = nil
	for _, in := range receiving {
		r.settle(in)
	}
	return receiving
}

// tellEnds runs OnEnd of all transfers, even when one of them panics.
func tellEnds(all []*incoming) {
	if len(all) > 0 {
		defer tellEnds(all[1:])
		all[0].delivery.tellEnd()
	}
}

// find returns a transfer that the peer sends; nil when it has ended or does not exist.
func (r *receiver) find(id uint64) *incoming {
	for _, in := range r.receiving {
		if in.header.id == id {
			return in
		}
	}
	return nil
}

// known is how many transfers there are whose header has come.
func (r *receiver) known() int {
	n := 0
	for _, in := range r.receiving {
		if in.known {
			n++
		}
	}
	return n
}

// onHeader begins a transfer. Its first parts may have overtaken it.
func (r *receiver) onHeader(m header) {
	if m.id != r.lastHeader+1 {
		r.peer.violate("header of transfer %d follows that of %d", m.id, r.lastHeader)
		return
	}
	r.lastHeader = m.id
	in := r.find(m.id)
	if in == nil {
		if in = r.expect(m.id); in == nil {
			return
		}
	}
	if err := in.begin(m); err != nil {
		r.peer.violate("%v", err)
		return
	}
	if in.cause() == nil { // it was not refused before its header came
		r.open(in)
	}
}

// mostAhead is how many transfers may begin before their headers come. It is at least one: even a receiver that takes none must let a
// transfer begin to refuse it.
func (r *receiver) mostAhead() int { return max(1, r.peer.streams.config.maxTransfers()) }

// expect adds a transfer whose header or first part has come. A peer that obeys the limit has at most mostAhead here. More than that
// are refused, which does not end the connection; up to as many again may wait for the tick that sends their refusals.
func (r *receiver) expect(id uint64) *incoming {
	if most := r.mostAhead(); len(r.receiving) >= 2*most {
		r.peer.violate("transfer %d: %d are under way already, the limit is %d", id, len(r.receiving), most)
		return nil
	}
	in := newIncoming(r.peer, id)
	if !r.peer.live.receive(in) {
		r.late++
		return nil
	}
	r.peer.watch()
	r.peer.account.MustBorrow(incomingBytes)
	r.receiving = append(r.receiving, in)
	return in
}

// open gives the transfer to its handler, or refuses it.
func (r *receiver) open(in *incoming) {
	t, handled := r.peer.streams.topic(in.header.topic)
	if err := r.refusal(in, t, handled); err != nil {
		in.finish(err)
		return
	}
	if !r.reserve(in) {
		in.finish(r.noMemory())
		return
	}
	in.start(t)
}

// refusal returns why the transfer may not begin, for any reason but memory; nil when it may.
func (r *receiver) refusal(in *incoming, t topic, handled bool) error {
	config := &r.peer.streams.config
	h, limit := &in.header, config.maxBytes()
	switch {
	case !handled || t.kind != h.kind:
		return fmt.Errorf("%w: nothing handles %v", ErrRejected, h)
	case !h.hash.ofTransfers():
		return fmt.Errorf("%w: the digest of %v is by %v, which is unknown here; known are %v", ErrRejected, h, h.hash, fastest())
	case h.parts != 0:
		return fmt.Errorf("%w: the parts of %v have digests of kind %d, which is unknown here", ErrRejected, h, h.parts)
	case t.kind == kindArray && t.shape != h.shape:
		return fmt.Errorf("%w: the elements of %v have other fields here", ErrRejected, h)
	case r.known() > config.maxTransfers():
		return fmt.Errorf("%w: %d transfers are under way, the limit is stream.Config.MaxTransfers, %d", ErrRejected, r.known()-1, config.maxTransfers())
	case int(r.writing.Load()) >= 2*config.maxTransfers():
		return fmt.Errorf("%w: what %d transfers asked of the store goes on, also of those that were given up", ErrRejected, r.writing.Load())
	case max(h.size, h.count) > limit:
		return fmt.Errorf("%w: it has %d %s, the limit is stream.Config.MaxBytes, %d", ErrTooLarge, max(h.size, h.count), h.units(), limit)
	}
	return nil
}

func (r *receiver) noMemory() error {
	return fmt.Errorf("%w: the transfers of all peers fill stream.Config.MaxMemory, %d bytes", ErrRejected, r.peer.streams.config.maxMemory())
}

// reserve has the account promise memory for the first window of a transfer, or for half of it, and so on, down to minPending.
func (r *receiver) reserve(in *incoming) bool {
	window := r.peer.streams.config.firstWindow(r.peer.streams.memory.Free())
	if h := &in.header; h.kind == kindBlob && h.size >= 0 {
		window = min(window, max(h.size, minPending))
	}
	for first := true; !r.peer.account.Promise(heldBytes(window)); first = false {
		switch {
		case first:
			r.peer.slices.shrink()
		case window <= minPending:
			return false
		default:
			window = max(window/2, minPending)
		}
	}
	in.answer.reserved, in.answer.promised = window, heldBytes(window)
	return true
}

// settle gives back, for a transfer that has ended, the promised memory, that of its records, and its bytes in ahead.
func (r *receiver) settle(in *incoming) {
	r.peer.account.Withdraw(in.answer.promised)
	r.peer.account.Repay(incomingBytes)
	r.ahead -= in.arrival.ahead
	in.answer.promised, in.arrival.ahead = 0, 0
}

// hold charges n bytes of content, and reports whether there was room. When there is none, it takes the spare memory of the machine
// of slices.
func (r *receiver) hold(n int64) bool {
	if r.peer.account.Hold(n, false) {
		return true
	}
	r.peer.slices.shrink()
	return r.peer.account.Hold(n, false)
}

// onPart takes a part that came on a lane or as a chunk. The transfer's header may come later: routes overtake the control pipe.
func (r *receiver) onPart(message []byte) {
	m, err := parsePart(message)
	if err != nil {
		r.peer.violate("%v", err)
		return
	}
	in := r.find(m.id)
	if in == nil {
		if m.id <= r.lastHeader {
			r.late++
			return
		}
		if most := r.mostAhead(); m.id > r.lastHeader+uint64(most) {
			r.peer.violate("part of transfer %d, the last header was %d and the limit is %d at once", m.id, r.lastHeader, most)
			return
		}
		if in = r.expect(m.id); in == nil {
			return
		}
	}
	if err := in.arrival.add(m); err != nil {
		r.peer.violate("transfer %d: %v", m.id, err)
	}
}

func (r *receiver) onEnd(m end) {
	if in := r.begun(m.id); in != nil {
		r.peer.check(in.arrival.onEnd(m))
	}
}

func (r *receiver) onCancel(m cancel) {
	if in := r.begun(m.id); in != nil {
		in.finish(told(m.stop, bySender))
	}
}

// begun returns the transfer that a message of its sender is about, nil when it has ended. A message before the header is a
// violation.
func (r *receiver) begun(id uint64) *incoming {
	if in := r.find(id); in != nil && in.known {
		return in
	}
	if id > r.lastHeader {
		r.peer.violate("message about transfer %d before its header", id)
		return nil
	}
	r.late++
	return nil
}
