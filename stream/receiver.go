package stream

import (
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// A receiver holds the transfers that one peer sends. It passes parts and messages to them,
// and limits their number and their memory. It is used on the world's goroutine only.
type receiver struct {
	peer *Peer

	// In order of arrival. Each stays here from its first part or header until this end has
	// sent done or reject.
	receiving   []*incoming
	lastHeader  uint64 // id of the newest header; 0 before the first
	early       int64  // bytes of parts that arrived before this end answered their headers
	mayEarly    int64  // limit of early, as announced in the limits message; see Streams.shareEarly
	evicted     uint64 // transfers evicted because they were stuck and others needed their memory
	late        uint64 // parts and messages dropped because their transfer had ended
	bytes       uint64 // bytes of parts that transfers accepted
	memoryAlarm alarm  // makes a tick retry transfers that wait for memory

	// Counts the goroutines of writers. It includes those of ended transfers that still wait
	// for the store. Used by Streams.writing.
	writing budget.ConnJobs
}

// deliver calls OnBatch of the transfers in a tick. Each transfer delivers at least one batch,
// even if the tick has used up its time.
func (r *receiver) deliver() {
	left := false
	for _, in := range r.receiving {
		left = in.delivery.tick(r.peer.streams.timeUp) || left
	}
	if left {
		r.peer.wake()
	}
}

// sendControl sends the first control message that is due to the sender, and reports whether
// it sent one. It removes a transfer after its last message.
func (r *receiver) sendControl(pipe *rpc.Actor, now time.Time) (sent bool, err error) {
	for i, in := range r.receiving {
		sent, over, err := in.answer.send(pipe, now)
		if over {
			r.receiving = slices.Delete(r.receiving, i, i+1)
			r.peer.live.remove(in)
			r.settle(in)
			in.delivery.tellEnd()
		}
		if sent || err != nil {
			return sent, err
		}
	}
	return false, nil
}

// end removes all transfers, which have failed, and returns them.
func (r *receiver) end() []*incoming {
	receiving := r.receiving
	r.receiving = nil
	for _, in := range receiving {
		r.settle(in)
	}
	return receiving
}

// tellEnds calls OnEnd of all transfers, even if one of the calls panics.
func tellEnds(all []*incoming) {
	if len(all) > 0 {
		defer tellEnds(all[1:])
		all[0].delivery.tellEnd()
	}
}

// find returns the transfer with the given id, or nil if it has ended or does not exist.
func (r *receiver) find(id uint64) *incoming {
	for _, in := range r.receiving {
		if in.header.id == id {
			return in
		}
	}
	return nil
}

// known returns the number of transfers whose header has arrived.
func (r *receiver) known() int {
	n := 0
	for _, in := range r.receiving {
		if in.known {
			n++
		}
	}
	return n
}

// onHeader begins a transfer. Some of its parts may have arrived before the header.
func (r *receiver) onHeader(h header) {
	if h.id != r.lastHeader+1 {
		r.peer.violate("header of transfer %d follows that of %d", h.id, r.lastHeader)
		return
	}
	r.lastHeader = h.id
	in := r.find(h.id)
	if in == nil {
		in = r.expect(h.id)
	}
	if in == nil {
		return
	}
	if err := in.begin(h); err != nil {
		r.peer.violate("%v", err)
		return
	}
	if in.cause() == nil { // not refused before its header arrived
		in.waitsForMemory = true
		in.headerTime = time.Now()
		r.openWaiting(in.headerTime) // opens it after the transfers that already wait
	}
}

// mostEarly returns the number of bytes that may arrive before this end answers their headers.
// It is at least minPending, because the peer may send that much before it learns its share.
func (r *receiver) mostEarly() int64 { return max(r.mayEarly, minPending) }

// maxUnannounced returns the number of transfers of which parts may arrive before the header.
// It is at least one: even a receiver that accepts no transfers must let one begin in order to
// refuse it.
func (r *receiver) maxUnannounced() int { return max(1, r.peer.streams.config.maxTransfers()) }

// expect adds a transfer whose header or first part has arrived.
//
// A peer that keeps to the limit has at most maxUnannounced transfers here. Transfers beyond
// that are refused, and as many again may wait for the tick that sends the refusals. More than
// that are a violation.
func (r *receiver) expect(id uint64) *incoming {
	limit := r.maxUnannounced()
	if len(r.receiving) >= 2*limit {
		r.peer.violate("transfer %d: %d are under way already, the limit is %d", id, len(r.receiving), limit)
		return nil
	}
	in := newIncoming(r.peer, id)
	if !r.peer.live.addIncoming(in) {
		r.late++
		return nil
	}
	r.peer.watch()
	in.records = waitingBytes
	r.peer.account.MustBorrow(in.records)
	r.receiving = append(r.receiving, in)
	return in
}

// open gives the transfer to the handler of its topic, or refuses it. If there is no memory
// for it now, open makes it wait.
func (r *receiver) open(in *incoming) {
	t, handled := r.peer.streams.topic(in.header.topic)
	if err := r.refusal(in, t, handled); err != nil {
		in.waitsForMemory = false
		in.finish(err)
		return
	}
	in.waitsForMemory = !r.reserve(in)
	if !in.waitsForMemory {
		in.start(t)
	}
}

// openWaiting opens the transfers that wait for memory, in order, as far as memory allows. It
// refuses a transfer that has waited for idleTime, unless another waiting transfer of the
// world was opened in the meantime. If none was, whatever holds the memory needs it for long.
func (r *receiver) openWaiting(now time.Time) {
	s := r.peer.streams
	for _, in := range r.receiving {
		if !in.waitsForMemory || in.cause() != nil {
			continue
		}
		r.open(in)
		if !in.waitsForMemory {
			if in.headerTime.Before(now) && in.cause() == nil {
				s.opened = now
			}
			continue
		}
		if min(now.Sub(in.headerTime), now.Sub(s.opened)) < idleTime {
			r.memoryAlarm.set(r.peer, memoryPause)
			return
		}
		in.finish(r.noMemory())
	}
}

// memoryPause is the maximum time between memory becoming free and a retry of a waiting
// transfer.
const memoryPause = 100 * time.Millisecond

// refusal returns the error that refuses the transfer, or nil if it may begin. It does not
// consider memory, which reserve does.
func (r *receiver) refusal(in *incoming, t topic, handled bool) error {
	config := &r.peer.streams.config
	h, limit, badKey := &in.header, config.maxBytes(), checkKey(in.header.key)
	switch {
	case !handled || t.kind != h.kind:
		return fmt.Errorf("%w: nothing handles %v", ErrRejected, h)
	case !h.hash.ofTransfers():
		return fmt.Errorf("%w: the digest of %v is by %v, which is unknown here; known are %v",
			ErrRejected, h, h.hash, fastest())
	case badKey != nil:
		return fmt.Errorf("%w: %w", ErrRejected, badKey)
	case h.parts != 0:
		return fmt.Errorf("%w: the parts of %v have digests of kind %d, which is unknown here", ErrRejected, h, h.parts)
	case t.kind == kindArray && t.shape != h.shape:
		return fmt.Errorf("%w: the elements of %v have other fields here: %s", ErrRejected, h, t.fields())
	case r.known() > config.maxTransfers():
		return fmt.Errorf("%w: as many transfers are under way as stream.Config.MaxTransfers allows, %d",
			ErrRejected, config.maxTransfers())
	case r.writers() >= 2*config.maxTransfers():
		return fmt.Errorf("%w: the store is still busy for %d transfers, some of which may have ended",
			ErrRejected, r.writers())
	case max(h.size, h.count) > limit:
		return fmt.Errorf("%w: it has %d %s, the limit is stream.Config.MaxBytes, %d bytes",
			ErrTooLarge, max(h.size, h.count), h.units(), limit)
	}
	return nil
}

// writers returns the number of goroutines that write for the peer. It includes those of
// earlier connections of the peer's identity, or of its address if it has none.
func (r *receiver) writers() int {
	return r.peer.streams.writing.Of(&r.writing, extend.PartyOf(r.peer.conn))
}

// noMemory returns the error that refuses a transfer for which Config.MaxMemory has no room.
func (r *receiver) noMemory() error {
	return fmt.Errorf("%w: the transfers of all peers fill stream.Config.MaxMemory, %d bytes",
		ErrRejected, r.peer.streams.config.maxMemory())
}

// reserve makes the account promise memory for a transfer's first credit. It returns false if
// there is not enough.
//
// On a shortage, reserve first takes back memory that is not needed and, if the world is
// crowded, evicts stuck transfers. Then it halves the credit until the account agrees. If
// there is not even memory for minPending, it evicts a stuck transfer of the same party.
func (r *receiver) reserve(in *incoming) bool {
	ahead := r.peer.streams.config.firstCredit(r.peer.streams.memory.Free())
	if h := &in.header; h.kind == kindBlob && h.size >= 0 {
		ahead = min(ahead, max(h.size, minPending))
	}
	for first := true; !in.answer.cover(ahead); first = false {
		switch {
		case first:
			r.withdrawFailed()
			r.peer.streams.reclaim.makeRoom(time.Now())
		case ahead > minPending:
			ahead = max(ahead/2, minPending)
		case !r.peer.streams.reclaim.evictFor(r, time.Now()):
			return false
		}
	}
	in.answer.reserved = ahead
	r.peer.account.MustBorrow(incomingBytes - in.records)
	in.records = incomingBytes
	return true
}

// idleChunks is the memory that the machine of slices may hold for a connection on which no
// complete chunks arrive. It is more than the machine's records take.
const idleChunks = 4 * minPending

// takeBack frees repair slices that nothing waits for. It reports whether the machine of
// slices still holds more memory than the peer has lately sent through it. If so, since is
// when a message last arrived.
func (r *receiver) takeBack(now time.Time) (since time.Time, stuck bool) {
	s := r.peer.slices
	keeps := func() bool { return r.chunks() > max(idleChunks, s.usage.recent(now, s.handed)) }
	if !keeps() {
		return since, false
	}
	s.yield()
	return s.usage.moved, keeps()
}

// chunks returns the part of the account's charge that is for the machine of slices.
func (r *receiver) chunks() int64 {
	sums, _ := r.peer.account.Charge()
	held := sums.Held + sums.Borrowed
	for _, in := range r.receiving {
		held -= in.holds()
	}
	return held
}

// holder returns the connection of the slices. It always reports that they hold content.
func (r *receiver) holder() (conn *rpc.Conn, holds bool) { return r.peer.conn, true }

// evict closes the connection of a peer whose slices do not become complete chunks. The slices
// cannot be dropped instead, because the peer does not resend slices that were acked.
func (r *receiver) evict(idle time.Duration) {
	r.peer.fail(fmt.Errorf("stream: nothing whole has come of slices for %v, "+
		"and others need their part of stream.Config.MaxMemory, %d bytes",
		idle, r.peer.streams.config.maxMemory()))
	r.peer.account.Close()
	r.peer.slices.discard()
}

// withdrawFailed takes back the credit of transfers that have failed. They need none, although
// the sender was not told of the failure yet.
func (r *receiver) withdrawFailed() {
	for _, in := range r.receiving {
		if in.cause() != nil {
			in.withdraw()
		}
	}
}

// settle frees what an ended transfer still takes: its promised memory, the memory of its
// records, and its part of early.
func (r *receiver) settle(in *incoming) {
	in.withdraw()
	r.peer.account.Repay(in.records)
	in.arrival.uncountEarly()
}

// hold charges n bytes of content, and reports whether there was room.
//
// There must be room for all that the peer may send before answers, because the peer was told
// so and cannot send it again. Room can be missing only if a transfer of the peer has stalled
// and holds more than is still promised to it.
func (r *receiver) hold(n int64) bool {
	return r.peer.account.Hold(n, false) || r.mayEarly > 0 && r.peer.account.HoldBeyond(n, heldBytes(r.mayEarly))
}

// onPart handles a part that arrived on a lane or as a chunk. It may arrive before the
// transfer's header, which is sent on the control pipe.
func (r *receiver) onPart(message []byte) {
	p, err := parsePart(message)
	if err != nil {
		r.peer.violate("%v", err)
		return
	}
	in := r.find(p.id)
	if in == nil {
		in = r.unannounced(p.id)
	}
	if in == nil {
		return
	}
	if r.peer.streams.reclaim.crowded() {
		r.peer.streams.reclaim.makeRoom(time.Now())
	}
	if err := in.arrival.add(p); err != nil {
		r.peer.violate("transfer %d: %v", p.id, err)
	}
}

// unannounced adds the transfer of a part that arrived before the transfer's header. It returns
// nil if the transfer has ended, or if the part breaks the protocol.
func (r *receiver) unannounced(id uint64) *incoming {
	if id <= r.lastHeader {
		r.late++
		return nil
	}
	limit := r.maxUnannounced()
	if id > r.lastHeader+uint64(limit) {
		r.peer.violate("part of transfer %d, the last header was %d and the limit is %d at once",
			id, r.lastHeader, limit)
		return nil
	}
	return r.expect(id)
}

// onEnd handles the message with the size and digest of a transfer.
func (r *receiver) onEnd(m end) {
	if in := r.begun(m.id); in != nil {
		r.peer.check(in.arrival.onEnd(m))
	}
}

// onCancel handles the message by which the sender cancels a transfer.
func (r *receiver) onCancel(m stop) {
	if in := r.begun(m.id); in != nil {
		in.finish(peerFailure(m, bySender))
	}
}

// begun returns the transfer that a control message names, or nil if it has ended. A message
// that arrives before the transfer's header is a violation. Both are sent on the control pipe,
// in order.
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
