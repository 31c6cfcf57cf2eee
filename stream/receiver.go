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
// passes parts and messages to them, and limits their number and memory. It is only used on the
// goroutine that drives the rpc.World.
type receiver struct {
	peer    *Peer
	streams *Streams

	// In order of arrival. A transfer is here from its first part or header until we have sent
	// its last message, done or reject.
	receiving  []*incoming
	lastHeader uint64 // id of the newest header; 0 before the first

	early earlyCredit

	memoryAlarm alarm // wakes the world to retry transfers that are waiting for memory

	// For Stats.
	bytes   uint64 // bytes of parts that transfers accepted
	late    uint64 // parts and messages dropped because their transfer had ended
	evicted uint64 // stuck transfers that we ended because others needed their memory

	// The connection's entry in Streams.writing, which counts the goroutines of writers, including
	// those of ended transfers that are still waiting for the store.
	writing budget.ConnJobs
}

// deliver calls the OnBatch of each transfer until no batch is left or the tick has used up its
// time. Even then, each transfer delivers one batch.
func (r *receiver) deliver() {
	for _, in := range r.receiving {
		if in.delivery.tick(r.streams.clock.timeUp) {
			r.peer.wake() // batches are left for the next tick
		}
	}
}

// sendControl sends the next control message that is due for any transfer, and reports whether
// there was one. It removes a transfer after sending its last message.
func (r *receiver) sendControl(pipe *rpc.Actor, now time.Time) (sent bool, err error) {
	for i, in := range r.receiving {
		var isLast bool
		sent, isLast, err = in.answer.sendNext(pipe, now)
		if isLast {
			r.remove(i)
		}
		if sent || isLast || err != nil {
			return sent, err
		}
	}
	return false, nil
}

// remove removes the transfer at index i, whose last message has been sent.
func (r *receiver) remove(i int) {
	in := r.receiving[i]
	r.receiving = slices.Delete(r.receiving, i, i+1)
	r.peer.live.remove(in)
	r.settle(in)
	in.delivery.notifyEnd()
}

// removeAll removes and returns all transfers. All of them must have ended.
func (r *receiver) removeAll() []*incoming {
	receiving := r.receiving
	r.receiving = nil
	for _, in := range receiving {
		r.settle(in)
	}
	return receiving
}

// notifyEnds calls the OnEnd of each transfer, even if some of the calls panic.
func notifyEnds(all []*incoming) {
	if len(all) > 0 {
		defer notifyEnds(all[1:])
		all[0].delivery.notifyEnd()
	}
}

// find returns the transfer with the given id, or nil if it has ended or hasn't begun to arrive.
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

// onHeader is called with the header of a transfer. Some of the transfer's parts may have arrived
// before it.
func (r *receiver) onHeader(h header) {
	if h.id != r.lastHeader+1 {
		r.peer.violate("header of transfer %d arrived; expected that of transfer %d", h.id, r.lastHeader+1)
		return
	}
	r.lastHeader = h.id
	in := r.find(h.id)
	if in == nil {
		in = r.track(h.id)
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

// maxUnannounced returns the maximum number of transfers whose parts may arrive before their
// headers. It's at least one, because even a receiver that accepts no transfers must let one begin
// before it can refuse it.
func (r *receiver) maxUnannounced() int { return max(1, r.streams.config.maxTransfers()) }

// track adds a transfer whose header or first part has arrived. It returns nil if the connection
// has ended, or if there are too many transfers, which breaks the protocol.
func (r *receiver) track(id uint64) *incoming {
	// A peer that respects the limit has at most that many open transfers here, and at most as many
	// others are waiting for the tick that sends their refusals.
	limit := r.maxUnannounced()
	if len(r.receiving) >= 2*limit {
		r.peer.violate("too many transfers: %d are in progress or being refused when transfer %d arrives; "+
			"the limit is %d at once", len(r.receiving), id, limit)
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

// An opening is what has become of an attempt to open a transfer.
type opening int

const (
	opened   opening = iota
	refused          // by us, or by the topic's handler
	mustWait         // for memory
)

// open passes a transfer that waits for memory to the handler of its topic, or refuses it. If there
// is still no memory for it, the transfer keeps waiting.
func (r *receiver) open(in *incoming, now time.Time) opening {
	t := r.streams.topic(in.header.topic)
	if err := r.refusal(in, t); err != nil {
		in.waitsForMemory = false
		in.finish(err)
		return refused
	}
	if !r.reserve(in, now) {
		return mustWait
	}
	in.waitsForMemory = false
	in.start(t)
	if in.cause() != nil {
		return refused
	}
	return opened
}

// openWaiting opens the transfers that are waiting for memory, in order, until memory runs out.
//
// It refuses a transfer that has waited for idleTime if no waiting transfer from any peer could be
// opened in that time, because memory is then unlikely to be freed soon.
func (r *receiver) openWaiting(now time.Time) {
	s := r.streams
	for _, in := range r.receiving {
		if !in.waitsForMemory || in.cause() != nil {
			continue
		}
		switch r.open(in, now) {
		case opened:
			if hadWaited := in.headerTime.Before(now); hadWaited {
				s.opened = now
			}
		case mustWait:
			waited := min(now.Sub(in.headerTime), now.Sub(s.opened))
			if waited < idleTime {
				// Headers are answered in order, so the transfers after this one have to wait too.
				r.memoryAlarm.set(r.peer, memoryPause)
				return
			}
			in.finish(r.noMemory(heldBytes(minPending)))
		}
	}
}

// memoryPause is the maximum time between two attempts to open a transfer that is waiting for
// memory. It adds little to the wait, which usually lasts until another transfer has ended.
const memoryPause = 100 * time.Millisecond

// refusal returns the error with which to refuse the transfer, or nil if the transfer may begin. It
// doesn't check whether there is enough memory, which is up to reserve.
func (r *receiver) refusal(in *incoming, t topic) error {
	if err := checkHeader(&in.header, t); err != nil {
		return err
	}
	return r.checkCapacity(&in.header)
}

// checkHeader returns an error if the topic, or this version of the package, can't receive what the
// header describes.
func checkHeader(h *header, t topic) error {
	badKey := checkKey(h.key)
	switch {
	case t.kind != h.kind: // the topic has no handler, or a handler for the other kind
		return fmt.Errorf("%w: no handler for %v", ErrRejected, h)
	case !h.hash.isKnown():
		return fmt.Errorf("%w: %v uses unknown digest %v; the receiver supports %v",
			ErrRejected, h, h.hash, fastestFirst())
	case badKey != nil:
		return fmt.Errorf("%w: %w", ErrRejected, badKey)
	case h.parts != 0:
		return fmt.Errorf("%w: parts of %v have digests of unknown kind %d", ErrRejected, h, h.parts)
	case t.kind == kindArray && t.shape != h.shape:
		return fmt.Errorf("%w: %w", ErrRejected, &fieldsError{array: h.String(), fields: t.fields()})
	}
	return nil
}

// checkCapacity returns an error if a transfer exceeds one of the limits in Config. The transfer
// already counts as known.
func (r *receiver) checkCapacity(h *header) error {
	config := &r.streams.config
	limit := config.maxBytes()
	switch {
	case r.countKnown() > config.maxTransfers(): // which includes this one
		return fmt.Errorf("%w: too many transfers in progress; the limit is %d (stream.Config.MaxTransfers)",
			ErrRejected, config.maxTransfers())
	case r.writers() >= 2*config.maxTransfers():
		// Ended transfers don't count above, but their writers may still be stuck in the store.
		return fmt.Errorf("%w: store is still busy with %d transfers, including ended ones; "+
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
	return r.streams.writing.Running(&r.writing, extend.PartyOf(r.peer.conn))
}

// writerStarted counts the goroutine of a writer until writerDone is called.
func (r *receiver) writerStarted() { r.streams.writing.Start(&r.writing) }

// writerDone is called when the goroutine of a writer ends, which may be long after the connection.
func (r *receiver) writerDone() { r.streams.writing.Done(&r.writing) }

// noMemory returns the error for refusing a transfer because Config.MaxMemory has no room for the
// given number of bytes that it needs.
func (r *receiver) noMemory(needed int64) error {
	return fmt.Errorf("%w: transfer needs %d bytes of memory, but other transfers use it or the sender already has its share; "+
		"the limit for all peers is %d bytes (stream.Config.MaxMemory)", ErrRejected, needed, r.streams.config.maxMemory())
}

// reserve reserves the memory for a transfer's first credit and records. It returns false if there
// isn't enough.
func (r *receiver) reserve(in *incoming, now time.Time) bool {
	ahead, ok := r.promiseCredit(in, now)
	if !ok {
		return false
	}
	in.answer.reserved = ahead
	r.peer.account.MustBorrow(incomingBytes - in.records)
	in.records = incomingBytes
	return true
}

// promiseCredit makes the account promise the memory for a transfer's first credit of ahead bytes.
// If memory is short, it tries to find some, first by the mildest means and last by the most
// drastic. ok is false if none of them helps.
func (r *receiver) promiseCredit(in *incoming, now time.Time) (ahead int64, ok bool) {
	ahead = r.streams.config.firstCredit(r.streams.memory.Free())
	if h := &in.header; h.kind == kindBlob && h.size >= 0 {
		ahead = min(ahead, max(h.size, minPending))
	}

	if in.answer.cover(ahead) {
		return ahead, true
	}

	// Take back memory that nobody is using and, if memory is nearly used up, the memory of stuck
	// transfers. Then make do with less.
	reclaim := &r.streams.reclaim
	r.withdrawFailed()
	reclaim.makeRoom(now)
	for !in.answer.cover(ahead) {
		if ahead > minPending {
			ahead = max(ahead/2, minPending)
		} else if !reclaim.evictFor(r, now) { // a stuck transfer of the same party, to get its memory
			return 0, false
		}
	}
	return ahead, true
}

// idleChunks is the amount of memory that the slice machine may hold for a connection on which no
// chunk is ever completed. (The machine, in package internal/slices, is the state machine that cuts
// chunks into slices and reassembles them.) The machine's records alone need less.
const idleChunks = 4 * minPending

// takeBack implements holder. The receiver is over its limit if its slice machine holds more than
// idleChunks and more than the peer has recently sent through the machine. takeBack then frees the
// repair slices, which are redundant and only replace lost slices. If the receiver is still over
// its limit, it's stuck.
func (r *receiver) takeBack(now time.Time) (since time.Time, stuck bool) {
	s := r.peer.slices
	overLimit := func() bool { return r.sliceMemory() > max(idleChunks, s.usage.measure(now, s.received)) }
	if !overLimit() {
		return since, false
	}
	s.dropRepairs()
	return s.usage.lastArrival, overLimit()
}

// sliceMemory returns the memory that is charged to the account for the slice machine, which is
// everything that isn't charged for transfers.
func (r *receiver) sliceMemory() int64 {
	sums, _ := r.peer.account.Charge()
	held := sums.Held + sums.Borrowed
	for _, in := range r.receiving {
		held -= in.chargedBytes()
	}
	return held
}

// owner implements holder. Slices always count as content.
func (r *receiver) owner() (conn *rpc.Conn, holds bool) { return r.peer.conn, true }

// evict implements holder. It closes the connection of a peer whose slices don't add up to complete
// chunks. Dropping the slices isn't enough, because they have been acked and so the peer would
// never resend them.
func (r *receiver) evict(idle time.Duration) {
	r.peer.fail(fmt.Errorf("stream: no chunk was completed for %v while other transfers needed memory; "+
		"the limit for all peers is %d bytes (stream.Config.MaxMemory)",
		idle, r.streams.config.maxMemory()))
	r.peer.account.Close()
	r.peer.slices.discard()
}

// withdrawFailed takes back the credit of transfers that have failed, even if we haven't told
// their senders yet.
func (r *receiver) withdrawFailed() {
	for _, in := range r.receiving {
		if in.cause() != nil {
			in.answer.withdraw(0)
		}
	}
}

// settle gives back everything that a removed transfer still has: promised memory, the memory of
// its records, and its share of the early credit.
func (r *receiver) settle(in *incoming) {
	in.answer.withdraw(0)
	r.peer.account.Repay(in.records)
	in.arrival.uncountEarly()
}

// countPart counts a part that a transfer accepted, and countLate one whose transfer had ended.
func (r *receiver) countPart(p part) { r.bytes += uint64(len(p.data)) }
func (r *receiver) countLate()       { r.late++ }

// charge charges n bytes of content to the account, even if there is no room for them, because
// their transfer holds them until it ends. It reports whether there was room.
func (r *receiver) charge(n int64) (hadRoom bool) {
	account := r.peer.account
	if n <= 0 { // joining parts frees memory
		account.MustHold(n)
		return true
	}
	if account.Hold(n, false) {
		return true
	}
	// There must be room for early parts, because we allowed the peer to send them, and it can't
	// resend them. HoldBeyond only fails if one of the peer's transfers has stalled and holds more
	// than is still promised to it.
	if r.early.share > 0 && account.HoldBeyond(n, heldBytes(r.early.share)) {
		return true
	}
	account.MustHold(n)
	return false
}

// onPart is called with a part that has arrived on a lane (a channel reserved for parts) or as a
// chunk. It may arrive before the transfer's header, which is sent on the control pipe.
func (r *receiver) onPart(message []byte) {
	p, err := parsePart(message)
	if err != nil {
		r.peer.violate("%v", err)
		return
	}
	in := r.find(p.id)
	if in == nil {
		in = r.trackEarly(p.id)
	}
	if in == nil {
		return
	}
	r.streams.reclaim.makeRoomIfCrowded()
	if err := in.arrival.add(p); err != nil {
		r.peer.violate("transfer %d: %v", p.id, err)
	}
}

// trackEarly is called with the id of an unknown transfer when one of its parts has arrived. If the
// header hasn't arrived yet, trackEarly adds the transfer. Otherwise the transfer has ended, and
// trackEarly counts the part as late and returns nil. It also returns nil if the part breaks the
// protocol.
func (r *receiver) trackEarly(id uint64) *incoming {
	if id <= r.lastHeader {
		r.late++
		return nil
	}
	limit := r.maxUnannounced()
	if id > r.lastHeader+uint64(limit) {
		r.peer.violate("part of transfer %d arrived, but the newest header is %d; parts may be at most %d transfers ahead",
			id, r.lastHeader, limit)
		return nil
	}
	return r.track(id)
}

// onEnd is called with the message that follows the last part of a transfer and gives the content's
// size and digest.
func (r *receiver) onEnd(m end) {
	r.dispatch(m.id, func(in *incoming) error { return in.arrival.onEnd(m) })
}

// onCancel is called when the sender cancels a transfer.
func (r *receiver) onCancel(m stop) {
	r.dispatch(m.id, func(in *incoming) error {
		in.finish(peerFailure(m, senderSide))
		return nil
	})
}

// dispatch finds the transfer for which a message from the sender has arrived, and passes it to
// apply. If the transfer has ended, dispatch only counts the message as late. If apply returns an
// error, the sender broke the protocol.
func (r *receiver) dispatch(id uint64, apply func(in *incoming) error) {
	if in := r.find(id); in != nil && in.known {
		r.peer.violateIf(apply(in))
		return
	}
	// The header is sent on the same pipe, in order, so it must have come first.
	if id > r.lastHeader {
		r.peer.violate("message for transfer %d arrived before its header", id)
		return
	}
	r.late++
}
