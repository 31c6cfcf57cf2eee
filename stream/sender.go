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

// A sender holds the transfers to one peer. It begins as many as the peer accepts at once,
// shares the connection between them, and handles the receiver's answers.
type sender struct {
	peer *Peer

	// mu guards starting. Start appends to starting on any goroutine, and the next tick moves
	// all of it to queue.
	mu       sync.Mutex
	starting []*Transfer

	// Used by the world's goroutine only.
	queue   []*Transfer // transfers that wait for a place at the peer, in the order of Start
	passed  int         // number of transfers begun since queue[0] became the first of queue
	sending []*Transfer // by id; each from its header until the receiver's done or reject
	lastID  uint64      // id of the newest header
	shares  shares      // the virtual time of sending
	late    uint64      // messages dropped because their transfer had ended
	bytes   uint64      // bytes of the parts that were given to routes

	// The peer's limits. Used by the world's goroutine only.
	// Transfers that the peer accepts at once, but at least 1. Before the limits arrive,
	// it is 1 at a server and 0 at a client.
	atOnce int
	early  int64 // bytes that the peer accepts before it has answered their headers

	peerFastest atomic.Uint32 // the Algorithm that is fastest at the peer; 0 until its limits arrive
}

// onLimits handles the peer's limits, on the world's goroutine.
func (s *sender) onLimits(m limits) {
	// A peer that accepts no transfers must get one in order to reject it. Otherwise all
	// transfers would wait forever.
	s.atOnce = max(1, m.transfers)
	s.early = int64(m.early)
	if len(m.hashes) > 0 {
		s.peerFastest.Store(uint32(m.hashes[0]))
	}
}

// hash returns the digest algorithm of a transfer. It returns the chosen algorithm or, if none
// was chosen, the fastest one if that is the same at both ends. Otherwise it returns SHA256.
// hash is safe for concurrent use.
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
		return fmt.Errorf("%w: %v: %w", ErrClosed, &t.header, err)
	}
	n, err := s.peer.live.addOutgoing(t, s.peer.streams.config.maxQueued())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = append(s.starting, t)
	if n <= readAtOnce {
		t.reader.start()
	}
	return nil
}

// readAtOnce is the number of transfers to a peer that read ahead while they wait in the
// queue. It is the default of Config.MaxTransfers.
const readAtOnce = 4

// collect moves the transfers in starting to queue, and removes canceled ones from queue.
func (s *sender) collect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, s.starting...)
	clear(s.starting)
	s.starting = s.starting[:0]
	s.queue = slices.DeleteFunc(s.queue, func(t *Transfer) bool {
		finished := t.isFinished()
		if finished {
			s.peer.live.remove(t)
		}
		return finished
	})
}

// idle reports whether there is no transfer to the peer.
func (s *sender) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.starting)+len(s.queue)+len(s.sending) == 0
}

// end removes all transfers, which have failed.
func (s *sender) end() {
	s.collect()
	s.queue, s.sending = nil, nil
}

// sendControl sends the first message that is due. It reports whether it sent one.
func (s *sender) sendControl(pipe *rpc.Actor) (sent bool, err error) {
	for i, t := range s.sending {
		if t.over {
			s.sending = slices.Delete(s.sending, i, i+1)
			s.peer.live.remove(t)
			return true, nil
		}
		sent, err = t.sendControl(pipe)
		if sent || err != nil {
			return sent, err
		}
	}
	return s.begin(pipe)
}

// maxPassed is the number of heavier transfers that may begin in a row before the one that has
// waited longest.
const maxPassed = 7

// next returns the index in queue of the transfer that begins next, or -1 if none may begin
// now. It picks the heaviest transfer, and the first of those with equal weight. After
// maxPassed others it picks the first of queue.
//
// No place is reserved for heavier transfers. A game may need as many transfers at once as the
// peer accepts, if they depend on each other.
func (s *sender) next() int {
	if len(s.queue) == 0 || len(s.sending) >= s.atOnce {
		return -1
	}
	if s.passed >= maxPassed {
		return 0
	}
	heaviest := 0
	for i, t := range s.queue {
		if t.share.weight.Load() > s.queue[heaviest].share.weight.Load() {
			heaviest = i
		}
	}
	return heaviest
}

// dequeue removes the transfer with index i from queue and returns it.
func (s *sender) dequeue(i int) *Transfer {
	t := s.queue[i]
	s.queue = slices.Delete(s.queue, i, i+1)
	s.passed++
	if i == 0 {
		s.passed = 0
	}
	return t
}

// begin sends the header of the next transfer if the peer accepts one more.
func (s *sender) begin(pipe *rpc.Actor) (bool, error) {
	i := s.next()
	if i < 0 {
		return false, nil
	}
	t := s.dequeue(i)
	_, slots := pipe.Channel(s.peer.conn).Reliable() // the reliable buffers of lanes have the same size
	if err := t.opts.checkEntries(slots); err != nil {
		t.finish(err)
		s.peer.live.remove(t)
		return true, nil
	}
	s.lastID++
	t.header.id = s.lastID
	t.limit = min(t.header.early(), s.earlyLeft())
	t.begin()
	s.sending = append(s.sending, t)
	s.shares.join(&t.share)
	t.reader.start()
	if err := s.peer.lanes.start(t); err != nil {
		return false, err
	}
	extend.Owe(s.peer.conn, 2) // an accept, and done or reject
	return true, sendHeader.call(pipe, t.header)
}

// earlyLeft returns the number of bytes that one more transfer may send before its header is
// answered.
func (s *sender) earlyLeft() int64 {
	left := s.early
	for _, t := range s.sending {
		left -= t.early()
	}
	return max(left, 0)
}

// pump sends parts until no route accepts more. Each time, it picks the transfer that is
// furthest behind its share.
func (s *sender) pump() error {
	for _, t := range s.sending {
		t.blocked = false
		t.awaitReport(s.peer.ticked)
	}

	for {
		t := s.neediest()
		if t == nil {
			return nil
		}

		// The gate is closed. Open more lanes if the path can fill them, and continue with the
		// other transfers.
		if !t.route.open() {
			if err := s.peer.lanes.widen(t); err != nil {
				return err
			}
			t.route.watch()
			t.blocked = true
			continue
		}

		switch err := t.sendPart(); {
		case errors.Is(err, rpc.ErrClosed):
			return err
		case err != nil:
			t.finish(err)
		}
	}
}

// left returns the number of bytes of the transfers in sending that were not given to a route
// yet.
func (s *sender) left() (bytes int64) {
	for _, t := range s.sending {
		bytes += t.left()
	}
	return bytes
}

// neediest returns the transfer that is furthest behind its share, of those that have a part
// to send. It returns nil if none has.
func (s *sender) neediest() *Transfer {
	var next *Transfer
	for _, t := range s.sending {
		switch {
		case t.blocked:
		case !t.hasPart():
			s.shares.join(&t.share)
		case next == nil || t.share.spent < next.share.spent:
			next = t
		}
	}
	return next
}

// usesLanes reports whether a transfer in sending uses lanes.
func (s *sender) usesLanes() bool {
	return slices.ContainsFunc(s.sending, func(t *Transfer) bool { return t.opts.window != nil })
}

// lastChunkGiven reports whether the transfers in sending will send no more parts as chunks.
func (s *sender) lastChunkGiven() bool {
	return !slices.ContainsFunc(s.sending, func(t *Transfer) bool {
		return t.opts.window == nil && !t.endSent && !t.have && !t.isFinished()
	})
}

// take calls apply with the transfer that one of the receiver's messages is about. It drops
// the message if the transfer has ended. If apply returns an error, the receiver broke the
// protocol.
func (s *sender) take(id uint64, apply func(t *Transfer) error) {
	for _, t := range s.sending {
		if t.header.id == id && !t.over {
			s.peer.check(apply(t))
			return
		}
	}
	if id > s.lastID {
		s.peer.violate("message about transfer %d, the last one is %d", id, s.lastID)
	}
	s.late++
}

// onAccept handles the receiver's answer to a header. The methods below handle its other
// messages. All of them run on the world's goroutine.
func (s *sender) onAccept(m accept) { s.take(m.id, func(t *Transfer) error { return t.onAccept(m) }) }
func (s *sender) onGrant(m grant)   { s.take(m.id, func(t *Transfer) error { return t.onGrant(m) }) }
func (s *sender) onDone(m done)     { s.take(m.id, (*Transfer).onDone) }
func (s *sender) onReject(m stop)   { s.take(m.id, func(t *Transfer) error { return t.onReject(m) }) }

// A share measures a transfer's use of its connection: the bytes that it sent, each divided by
// the transfer's weight at that time. Of the transfers that can send, the one that has used
// the least is next. Over any period, each transfer therefore gets a part of the bytes in
// proportion to its weight, to within one part of content. This is fair queuing by virtual
// time, which deficit round robin approximates.
type share struct {
	weight atomic.Int32 // set by Transfer.SetWeight, on any goroutine
	spent  float64      // bytes divided by weight; used by the world's goroutine only
}

// shares holds the virtual time of one connection's transfers. That is the value of spent of
// the transfer that was served last.
type shares struct{ now float64 }

// join is called for a transfer that begins or has nothing to send. It cancels the transfer's
// claim to time that it did not use.
func (s *shares) join(one *share) { one.spent = max(one.spent, s.now) }

// serve charges a transfer for bytes that it sends.
func (s *shares) serve(one *share, bytes int) {
	s.now = max(s.now, one.spent)
	one.spent += float64(bytes) / float64(one.weight.Load())
}
