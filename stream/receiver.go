package stream

import (
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// A receiver is the receiving half of a [Peer]. It holds the transfers that the peer sends us,
// passes parts and messages to them, and limits their number and the memory that they use. It is
// only used on the world's goroutine.
type receiver struct {
	peer *Peer

	// In order of arrival. A transfer is here from its first part or header until we have sent
	// its last message, done or reject.
	receiving  []*incoming
	lastHeader uint64 // id of the newest header; 0 before the first

	// Parts may arrive early, that is, before we have answered the header.
	early      int64 // bytes of early parts, of all transfers
	earlyShare int64 // limit on early that our limits message announced; see Streams.shareEarly

	memoryAlarm alarm // wakes the world to retry transfers that are waiting for memory

	// For Stats.
	bytes   uint64 // bytes of parts that transfers accepted
	late    uint64 // parts and messages dropped because their transfer had ended
	evicted uint64 // stuck transfers that we ended because others needed their memory

	// Counts the goroutines of writers, including those of ended transfers that are still waiting
	// for the store. Used by Streams.writing.
	writing budget.ConnJobs
}

// deliver calls the OnBatch of each transfer during a tick. Even if the tick has used up its
// time, each transfer delivers at least one batch.
func (r *receiver) deliver() {
	for _, in := range r.receiving {
		if in.delivery.tick(r.peer.streams.clock.timeUp) {
			r.peer.wake() // batches are left for the next tick
		}
	}
}

// sendControl sends the next control message that is due, of any transfer, and reports whether
// there was one. A transfer is removed when its last message is sent.
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

// removeAll removes and returns all transfers, which must have ended.
func (r *receiver) removeAll() []*incoming {
	receiving := r.receiving
	r.receiving = nil
	for _, in := range receiving {
		r.settle(in)
	}
	return receiving
}

// tellEnds calls the OnEnd of each transfer, even if some of the calls panic.
func tellEnds(all []*incoming) {
	if len(all) > 0 {
		defer tellEnds(all[1:])
		all[0].delivery.tellEnd()
	}
}

// find returns the transfer with the given id, or nil if the transfer has ended or nothing of it
// has arrived.
func (r *receiver) find(id uint64) *incoming {
	for _, in := range r.receiving {
		if in.header.id == id {
			return in
		}
	}
	return nil
}

// countKnown counts the transfers whose header has arrived.
func (r *receiver) countKnown() int {
	n := 0
	for _, in := range r.receiving {
		if in.known {
			n++
		}
	}
	return n
}

// onHeader is called with the header of a transfer, some of whose parts may have arrived earlier.
func (r *receiver) onHeader(h header) {
	if h.id != r.lastHeader+1 {
		r.peer.violate("header of transfer %d follows that of transfer %d", h.id, r.lastHeader)
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
	if in.cause() != nil {
		return // already refused, because of its early parts
	}
	// The transfer must not overtake those that are already waiting for memory, so it joins them.
	in.waitsForMemory = true
	in.headerTime = time.Now()
	r.openWaiting(in.headerTime)
}

// earlyLimit returns how many bytes may arrive early. It's at least minPending, because the peer
// may send that many before it learns its share.
func (r *receiver) earlyLimit() int64 { return max(r.earlyShare, minPending) }

// addEarly counts n more bytes of early parts. It returns an error if the sender has exceeded the
// limit, because that breaks the protocol.
func (r *receiver) addEarly(n int64) error {
	r.early += n
	if limit := r.earlyLimit(); r.early > limit {
		return fmt.Errorf("%w: %d bytes arrived before their headers were answered; the limit is %d",
			errNoCredit, r.early, limit)
	}
	return nil
}

// removeEarly stops counting n bytes of early parts.
func (r *receiver) removeEarly(n int64) { r.early -= n }

// maxUnannounced returns the maximum number of transfers whose parts may arrive before the
// header. It's at least one, because even a receiver that accepts no transfers must let a transfer
// begin before it can refuse it.
func (r *receiver) maxUnannounced() int { return max(1, r.peer.streams.config.maxTransfers()) }

// expect adds a transfer whose header or first part has arrived. It returns nil if the
// connection has ended, or if there are too many transfers.
func (r *receiver) expect(id uint64) *incoming {
	// A peer that respects the limit has at most limit open transfers here, and as many others may
	// be waiting for the tick that sends their refusals. More than that breaks the protocol.
	limit := r.maxUnannounced()
	if len(r.receiving) >= 2*limit {
		r.peer.violate("transfer %d exceeds the limit: %d are in progress or being refused; the limit is %d at once",
			id, len(r.receiving), limit)
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

// open gives a transfer to the handler of its topic, or refuses it. If there is no memory for the
// transfer, it keeps waiting.
func (r *receiver) open(in *incoming) {
	t := r.peer.streams.topic(in.header.topic)
	if err := r.refusal(in, t); err != nil {
		in.waitsForMemory = false
		in.finish(err)
		return
	}
	in.waitsForMemory = !r.reserve(in)
	if !in.waitsForMemory {
		in.start(t)
	}
}

// openWaiting opens the transfers that are waiting for memory, in order, until memory runs out.
//
// It refuses a transfer that has waited for idleTime if no waiting transfer of the world could be
// opened in that time, because the memory then seems to be in use for long.
func (r *receiver) openWaiting(now time.Time) {
	s := r.peer.streams
	for _, in := range r.receiving {
		if !in.waitsForMemory || in.cause() != nil {
			continue
		}
		r.open(in)
		if !in.waitsForMemory {
			hadWaited := in.headerTime.Before(now)
			if hadWaited && in.cause() == nil {
				s.opened = now
			}
			continue
		}
		waited := min(now.Sub(in.headerTime), now.Sub(s.opened))
		if waited < idleTime {
			// Headers are answered in order, so the transfers after this one have to wait too.
			r.memoryAlarm.set(r.peer, memoryPause)
			return
		}
		in.finish(r.noMemory())
	}
}

// memoryPause is the maximum time between two attempts to open a transfer that is waiting for
// memory. It adds little to a wait that usually lasts until another transfer has ended.
const memoryPause = 100 * time.Millisecond

// refusal returns the error for refusing the transfer, or nil if the transfer may begin. It
// doesn't check whether there is enough memory, because reserve does.
func (r *receiver) refusal(in *incoming, t topic) error {
	config := &r.peer.streams.config
	h, limit, badKey := &in.header, config.maxBytes(), checkKey(in.header.key)
	switch {
	case t.kind != h.kind: // or it has no handler
		return fmt.Errorf("%w: no handler for %v", ErrRejected, h)
	case !h.hash.isKnown():
		return fmt.Errorf("%w: digest of %v is by unknown %v; the receiver supports %v",
			ErrRejected, h, h.hash, fastestFirst())
	case badKey != nil:
		return fmt.Errorf("%w: %w", ErrRejected, badKey)
	case h.parts != 0:
		return fmt.Errorf("%w: parts of %v have digests of unknown kind %d", ErrRejected, h, h.parts)
	case t.kind == kindArray && t.shape != h.shape:
		return fmt.Errorf("%w: elements of %v have different fields at the receiver: %s", ErrRejected, h, t.fields())
	case r.countKnown() > config.maxTransfers(): // which includes this one
		return fmt.Errorf("%w: transfers in progress have reached the limit of %d (stream.Config.MaxTransfers)",
			ErrRejected, config.maxTransfers())
	case r.writers() >= 2*config.maxTransfers():
		// Ended transfers don't count above, but their writers may still be stuck in the store.
		return fmt.Errorf("%w: store is busy with %d transfers, including ended ones; "+
			"the limit is %d (twice stream.Config.MaxTransfers)",
			ErrRejected, r.writers(), 2*config.maxTransfers())
	case max(h.size, h.count) > limit:
		return fmt.Errorf("%w: content has %d %s; the limit is %d bytes (stream.Config.MaxBytes)",
			ErrTooLarge, max(h.size, h.count), h.units(), limit)
	}
	return nil
}

// writers returns the number of goroutines that are writing for the peer, on this connection and
// on earlier connections of the same identity or, if the peer has no identity, the same address.
func (r *receiver) writers() int {
	return r.peer.streams.writing.Running(&r.writing, extend.PartyOf(r.peer.conn))
}

// writerStarted counts the goroutine of a writer until writerDone is called.
func (r *receiver) writerStarted() { r.peer.streams.writing.Start(&r.writing) }

// writerDone is called when the goroutine of a writer ends, which may be long after the connection.
func (r *receiver) writerDone() { r.peer.streams.writing.Done(&r.writing) }

// noMemory returns the error for refusing a transfer because Config.MaxMemory has no room for it.
func (r *receiver) noMemory() error {
	return fmt.Errorf("%w: out of memory for transfers: all peers together have reached %d bytes (stream.Config.MaxMemory)",
		ErrRejected, r.peer.streams.config.maxMemory())
}

// reserve gets a promise of the memory for a transfer's first credit from the account. If memory is
// short, it takes one step after another to find some, from the mildest to the most drastic. It
// returns false if all of them fail.
func (r *receiver) reserve(in *incoming) bool {
	ahead := r.peer.streams.config.firstCredit(r.peer.streams.memory.Free())
	if h := &in.header; h.kind == kindBlob && h.size >= 0 {
		ahead = min(ahead, max(h.size, minPending))
	}

	covered := in.answer.cover(ahead)
	if !covered {
		// Take back memory that nobody needs, including that of stuck transfers if the world is
		// crowded.
		r.withdrawFailed()
		r.peer.streams.reclaim.makeRoom(time.Now())
		covered = in.answer.cover(ahead)
	}
	for !covered && ahead > minPending {
		// Make do with less.
		ahead = max(ahead/2, minPending)
		covered = in.answer.cover(ahead)
	}
	for !covered {
		// Evict a stuck transfer of the same party to get its memory.
		if !r.peer.streams.reclaim.evictFor(r, time.Now()) {
			return false
		}
		covered = in.answer.cover(ahead)
	}

	in.answer.reserved = ahead
	r.peer.account.MustBorrow(incomingBytes - in.records)
	in.records = incomingBytes
	return true
}

// idleChunks is the amount of memory that the slice machine (package internal/slices) may hold for
// a connection on which no chunk is ever completed. The machine's records alone need less.
const idleChunks = 4 * minPending

// takeBack implements hoarder. It frees repair slices, which are redundant slices that replace lost
// ones, because we can do without them.
//
// The receiver is stuck if its slice machine still holds more than idleChunks after that, and more
// than the peer has recently sent through the machine.
func (r *receiver) takeBack(now time.Time) (since time.Time, stuck bool) {
	s := r.peer.slices
	holdsTooMuch := func() bool { return r.sliceMemory() > max(idleChunks, s.usage.measure(now, s.received)) }
	if !holdsTooMuch() {
		return since, false
	}
	s.yield()
	return s.usage.lastArrival, holdsTooMuch()
}

// sliceMemory returns the memory that the account charges for the slice machine, which is whatever
// it doesn't charge for transfers.
func (r *receiver) sliceMemory() int64 {
	sums, _ := r.peer.account.Charge()
	held := sums.Held + sums.Borrowed
	for _, in := range r.receiving {
		held -= in.chargedBytes()
	}
	return held
}

// holder implements hoarder. Slices always count as content.
func (r *receiver) holder() (conn *rpc.Conn, holds bool) { return r.peer.conn, true }

// evict implements hoarder. It closes the connection of a peer whose slices don't add up to
// complete chunks. Dropping the slices isn't enough, since the peer doesn't resend slices that have
// been acked.
func (r *receiver) evict(idle time.Duration) {
	r.peer.fail(fmt.Errorf("stream: slices completed no chunk for %v, "+
		"and other transfers need their memory; all peers may use %d bytes (stream.Config.MaxMemory)",
		idle, r.peer.streams.config.maxMemory()))
	r.peer.account.Close()
	r.peer.slices.discard()
}

// withdrawFailed takes back the credit of transfers that have failed, even if we haven't told
// their senders yet.
func (r *receiver) withdrawFailed() {
	for _, in := range r.receiving {
		if in.cause() != nil {
			in.withdraw()
		}
	}
}

// settle gives back everything that a removed transfer still has: promised memory, the memory of
// its records, and its share of early.
func (r *receiver) settle(in *incoming) {
	in.withdraw()
	r.peer.account.Repay(in.records)
	in.arrival.uncountEarly()
}

// hold charges n bytes of content to the account. It returns false if there is no room.
func (r *receiver) hold(n int64) bool {
	if r.peer.account.Hold(n, false) {
		return true
	}
	// There must be room for early parts, because we told the peer that it may send them, and it
	// can't resend them. HoldBeyond fails only if a transfer of the peer has stalled while it holds
	// more than is still promised to it.
	return r.earlyShare > 0 && r.peer.account.HoldBeyond(n, heldBytes(r.earlyShare))
}

// onPart is called with a part that has arrived on a lane or as a chunk. It may arrive before the
// transfer's header, which travels on the control pipe.
func (r *receiver) onPart(message []byte) {
	p, err := parsePart(message)
	if err != nil {
		r.peer.violate("%v", err)
		return
	}
	in := r.find(p.id)
	if in == nil {
		in = r.expectEarly(p.id)
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

// expectEarly is called when a part of an unknown transfer has arrived. It adds the transfer if its
// header has not arrived yet. It returns nil if the part is late, because the transfer has ended,
// or if the part breaks the protocol.
func (r *receiver) expectEarly(id uint64) *incoming {
	if id <= r.lastHeader {
		r.late++
		return nil
	}
	limit := r.maxUnannounced()
	if id > r.lastHeader+uint64(limit) {
		r.peer.violate("part of transfer %d arrived after header %d; the limit is %d transfers at once",
			id, r.lastHeader, limit)
		return nil
	}
	return r.expect(id)
}

// onEnd is called with the message that follows the last part of a transfer and has its size and
// digest.
func (r *receiver) onEnd(m end) {
	r.dispatch(m.id, func(in *incoming) error { return in.arrival.onEnd(m) })
}

// onCancel is called when the sender cancels a transfer.
func (r *receiver) onCancel(m stop) {
	r.dispatch(m.id, func(in *incoming) error {
		in.finish(peerFailure(m, bySender))
		return nil
	})
}

// dispatch calls apply with the transfer that a message of the sender is about, unless the transfer
// has ended. An error of apply means that the sender broke the protocol.
func (r *receiver) dispatch(id uint64, apply func(in *incoming) error) {
	if in := r.find(id); in != nil && in.known {
		r.peer.violateIf(apply(in))
		return
	}
	// The header is sent on the same pipe, in order, so it must have come first.
	if id > r.lastHeader {
		r.peer.violate("message about transfer %d before its header", id)
		return
	}
	r.late++
}
