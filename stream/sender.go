package stream

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// A sender holds the transfers to one peer. It begins as many transfers as the peer accepts at
// once, shares the connection among them, and handles the receiver's answers.
//
// Start adds to it on any goroutine. Everything else happens on the world's goroutine.
type sender struct {
	peer *Peer

	queue startQueue // transfers that are waiting to begin

	// Used by the world's goroutine only.
	sending []*Transfer // by id; each from its header until the receiver's done or reject
	lastID  uint64      // id of the newest header
	shares  shares      // decides which of sending is next

	// The peer's limits, set by onLimits. Used by the world's goroutine only, except peerFastest.
	atOnce      int           // transfers at once; at least 1, but 0 at a client until onLimits
	early       int64         // bytes that we may send before the peer has answered their headers
	peerFastest atomic.Uint32 // Algorithm that is fastest at the peer; 0 until its limits arrive

	// For Stats. Used by the world's goroutine only.
	late  uint64 // messages dropped because their transfer had ended
	bytes uint64 // bytes of the parts that were given to routes
}

// onLimits handles the peer's limits, on the world's goroutine.
func (s *sender) onLimits(m limits) {
	// Even a peer that accepts no transfers must get one in order to reject it, because our
	// transfers would otherwise wait forever.
	s.atOnce = max(1, m.transfers)
	s.early = int64(m.early)
	if len(m.hashes) > 0 {
		s.peerFastest.Store(uint32(m.hashes[0]))
	}
}

// hash returns the algorithm for the digest of a transfer: chosen unless it's 0, the fastest
// algorithm if it's the same at both ends, and otherwise SHA256. It is safe for concurrent use.
func (s *sender) hash(chosen Algorithm) Algorithm {
	ours := s.peer.streams.config.hashes()[0]
	switch {
	case chosen != 0:
		return chosen
	case ours == Algorithm(s.peerFastest.Load()):
		return ours
	}
	return SHA256
}

// start queues t for the next tick. It is safe for concurrent use.
func (s *sender) start(t *Transfer) error {
	if err := s.peer.conn.Err(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrClosed, t.name(), err)
	}
	n, err := s.peer.live.addOutgoing(t, s.peer.streams.config.maxQueued())
	if err != nil {
		return err
	}
	s.queue.add(t)
	if n <= maxEarlyReaders { // otherwise begin starts the reader
		t.startReader()
	}
	return nil
}

// maxEarlyReaders is the maximum number of transfers to a peer that may read ahead while they wait
// in the queue. It equals the default of Config.MaxTransfers, the number that usually begins with
// the next tick.
const maxEarlyReaders = 4

// collect moves new transfers to the queue, and removes canceled ones from it.
func (s *sender) collect() { s.queue.collect(func(t *Transfer) { s.peer.live.remove(t) }) }

// idle reports whether there is no transfer to the peer.
func (s *sender) idle() bool { return len(s.sending) == 0 && s.queue.empty() }

// end removes all transfers. It's called when the connection has ended and they have failed.
func (s *sender) end() {
	s.collect()
	s.queue.waiting, s.sending = nil, nil
}

// sendControl sends the first message that is due, or removes a transfer that the receiver has
// answered for the last time. It returns true if it did either, and must then be called again.
func (s *sender) sendControl(pipe *rpc.Actor) (more bool, err error) {
	for i, t := range s.sending {
		if t.answered {
			s.sending = slices.Delete(s.sending, i, i+1) // the next transfer can now begin
			s.peer.live.remove(t)
			return true, nil
		}
		sent, err := t.sendControl(pipe)
		if sent || err != nil {
			return sent, err
		}
	}
	return s.begin(pipe)
}

// begin takes the next transfer out of the queue and sends its header, if the peer accepts another
// transfer. It returns false if there was nothing to take.
func (s *sender) begin(pipe *rpc.Actor) (taken bool, err error) {
	if len(s.sending) >= s.atOnce {
		return false, nil
	}
	t := s.queue.take()
	if t == nil {
		return false, nil
	}

	entries, maxBunch, _ := extend.Limits(s.peer.conn)
	if err := t.opts.checkLimits(entries, maxBunch); err != nil {
		t.finish(err)
		s.peer.live.remove(t)
		return true, nil
	}

	s.lastID++
	t.header.id = s.lastID
	t.allowance.limit = min(t.header.early(), s.earlyLeft())
	t.status.start()
	s.sending = append(s.sending, t)
	s.shares.join(&t.share)
	t.startReader()
	if err := s.peer.lanes.start(t); err != nil {
		return false, err
	}
	extend.Owe(s.peer.conn, 2) // an accept, and done or reject
	return true, headerMessage.send(pipe, t.header)
}

// earlyLeft returns how many bytes another transfer may send before its header is answered.
func (s *sender) earlyLeft() int64 {
	left := s.early
	for _, t := range s.sending {
		left -= t.earlyBytes()
	}
	return max(left, 0)
}

// pump sends parts until no route accepts another one. It always picks the transfer that is
// furthest behind its share.
func (s *sender) pump() error {
	for _, t := range s.sending {
		t.blocked = false
		t.awaitReport(s.peer.ticked)
	}

	for {
		t := s.pickNext()
		if t == nil {
			return nil
		}

		// If the route is full, ask for more lanes in case the path can fill them, and for a tick
		// when the route accepts parts again. Then continue with the other transfers.
		if !t.route.prepare() {
			if err := s.peer.lanes.widen(t); err != nil {
				return err
			}
			t.route.watch()
			t.blocked = true
			continue
		}

		switch err := t.sendPart(); {
		case errors.Is(err, rpc.ErrClosed):
			return err // the connection is gone, and so are all routes
		case err != nil:
			t.finish(err)
		}
	}
}

// unsentBytes returns the number of bytes of the current transfers that we haven't given to a
// route yet.
func (s *sender) unsentBytes() (bytes int64) {
	for _, t := range s.sending {
		bytes += t.unsentBytes()
	}
	return bytes
}

// pickNext picks, among the transfers that can send a part, the one that is furthest behind its
// share. It returns nil if there is none. A transfer that has no content to send loses its unused
// share.
func (s *sender) pickNext() *Transfer {
	var next *Transfer
	for _, t := range s.sending {
		switch {
		case t.blocked:
			// It keeps its unused share, since it's only waiting for its route.
		case !t.pollPart():
			s.shares.join(&t.share)
		case next == nil || t.share.spent < next.share.spent:
			next = t
		}
	}
	return next
}

// usesLanes reports whether any of the current transfers uses lanes.
func (s *sender) usesLanes() bool {
	return slices.ContainsFunc(s.sending, func(t *Transfer) bool { return t.opts.window != nil })
}

// allChunksSent reports whether the current transfers will send no more parts as chunks.
func (s *sender) allChunksSent() bool {
	return !slices.ContainsFunc(s.sending, func(t *Transfer) bool {
		return t.opts.window == nil && !t.contentSent() && !t.isFinished()
	})
}

// dispatch calls apply with the transfer that a message of the receiver is about, unless the
// transfer has ended. An error of apply means that the receiver broke the protocol.
func (s *sender) dispatch(id uint64, apply func(t *Transfer) error) {
	for _, t := range s.sending {
		if t.header.id == id && !t.answered {
			s.peer.violateIf(apply(t))
			return
		}
	}
	s.late++
	if id > s.lastID {
		s.peer.violate("message about transfer %d; the latest is %d", id, s.lastID)
	}
}

// onAccept and the methods below it handle the receiver's messages, on the world's goroutine.
func (s *sender) onAccept(m accept) {
	s.dispatch(m.id, func(t *Transfer) error { return t.onAccept(m) })
}
func (s *sender) onGrant(m grant) { s.dispatch(m.id, func(t *Transfer) error { return t.onGrant(m) }) }
func (s *sender) onDone(m done)   { s.dispatch(m.id, (*Transfer).onDone) }
func (s *sender) onReject(m stop) { s.dispatch(m.id, func(t *Transfer) error { return t.onReject(m) }) }

// # Queue

// A startQueue holds the transfers to a peer that are waiting to begin. Start adds to it on any
// goroutine. Everything else happens on the world's goroutine.
type startQueue struct {
	mu       sync.Mutex  // guards starting
	starting []*Transfer // added by Start; moved to waiting by the next tick

	// Used by the world's goroutine only.
	waiting []*Transfer // in the order of Start
	passed  int         // number of transfers that have overtaken waiting[0]
}

// add adds a transfer. It is safe for concurrent use.
func (q *startQueue) add(t *Transfer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.starting = append(q.starting, t)
}

// collect moves the added transfers to waiting, removes the transfers that have ended, and calls
// removed with each of them.
func (q *startQueue) collect(removed func(t *Transfer)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, q.starting...)
	clear(q.starting)
	q.starting = q.starting[:0]
	q.waiting = slices.DeleteFunc(q.waiting, func(t *Transfer) bool {
		finished := t.isFinished()
		if finished {
			removed(t)
		}
		return finished
	})
}

func (q *startQueue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.starting)+len(q.waiting) == 0
}

// take removes and returns the transfer that begins next, or returns nil if none is waiting.
func (q *startQueue) take() *Transfer {
	if len(q.waiting) == 0 {
		return nil
	}
	i := q.next()
	t := q.waiting[i]
	q.waiting = slices.Delete(q.waiting, i, i+1)
	if i == 0 {
		q.passed = 0
	} else {
		q.passed++
	}
	return t
}

// maxPassed is the maximum number of heavier transfers that may overtake the transfer that has
// waited longest. The lightest transfer thus gets at least every eighth turn.
const maxPassed = 7

// next returns the index in waiting of the transfer that begins next: the heaviest, or the first of
// several that are equally heavy. Once maxPassed transfers have overtaken the first in the queue,
// next picks that one, whatever its weight.
//
// No turn is reserved for heavier transfers that may follow, because a game may depend on as many
// transfers at once as the peer accepts.
func (q *startQueue) next() int {
	if q.passed >= maxPassed {
		return 0
	}
	heaviest := 0
	for i, t := range q.waiting {
		if t.share.weight.Load() > q.waiting[heaviest].share.weight.Load() {
			heaviest = i
		}
	}
	return heaviest
}

// # Shares

// A share measures how much of its connection a transfer has used: the bytes that it has sent,
// divided by the transfer's weight when it sent them.
//
// Among the transfers that can send, the one that has used the least is next. Over any period,
// each transfer therefore gets bytes in proportion to its weight, to within one part. This is fair
// queuing by virtual time, which deficit round robin approximates.
type share struct {
	weight atomic.Int32 // set by Transfer.SetWeight, on any goroutine
	spent  float64      // bytes divided by weight; used by the world's goroutine only
}

// shares holds the virtual time of one connection's transfers: what the transfer that was served
// last had spent when it was served.
type shares struct{ now float64 }

// join is called for a transfer that begins, or that has nothing to send. The transfer loses its
// unused share, because it could otherwise catch up later at the expense of other transfers.
func (s *shares) join(one *share) { one.spent = max(one.spent, s.now) }

// serve charges a transfer for the bytes that it sends.
func (s *shares) serve(one *share, bytes int) {
	s.now = max(s.now, one.spent)
	one.spent += float64(bytes) / float64(one.weight.Load())
}
