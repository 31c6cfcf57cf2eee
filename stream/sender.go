package stream

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quivernet/quiver/rpc"
)

// sender sends the transfers of one peer: it begins as many as the peer takes at once, shares the connection between them and
// hears what their receiver says.
type sender struct {
	peer *Peer

	// Start appends to it on any goroutine; the next tick moves all of it to queue.
	mu       sync.Mutex
	starting []*Transfer

	// Owned by the world's goroutine.
	queue   []*Transfer // wait for one of sending to end
	sending []*Transfer // header sent, the receiver's last word not heard; by id
	lastID  uint64      // of sending, and of those that have ended
	shares  shares      // of sending
	late    uint64      // messages about transfers that had ended, dropped

	// What the peer has said in its limits; owned by the world's goroutine.
	atOnce int   // transfers that it takes at once; 1 until it says
	early  int64 // bytes that it takes before it has answered their headers

	peerFastest atomic.Uint32 // the Algorithm that the peer hashes with the fastest; 0 until it says
}

// onLimits hears what the peer takes, on the world's goroutine.
func (s *sender) onLimits(m limits) {
	s.atOnce, s.early = m.transfers, int64(m.early)
	if len(m.hashes) > 0 {
		s.peerFastest.Store(uint32(m.hashes[0]))
	}
}

// hash is how a transfer is hashed: as it says, or as both ends are the fastest, or as all ends can.
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

// start queues t for the next tick.
func (s *sender) start(t *Transfer) error {
	if err := s.peer.conn.Err(); err != nil {
		return fmt.Errorf("%w: %v: %w", ErrClosed, &t.header, err)
	}
	n, err := s.peer.live.send(t, s.peer.streams.config.maxQueued())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = append(s.starting, t)
	if n <= readAtOnce {
		t.read()
	}
	return nil
}

// readAtOnce is how many transfers of a peer read ahead before their turn has come.
const readAtOnce = 4

// collect takes what start queued, and forgets what was canceled before its turn came.
func (s *sender) collect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, s.starting...)
	clear(s.starting)
	s.starting = s.starting[:0]
	s.queue = slices.DeleteFunc(s.queue, func(t *Transfer) bool {
		finished := t.isFinished()
		if finished {
			s.peer.live.sent(t)
		}
		return finished
	})
}

// idle reports whether there is no transfer.
func (s *sender) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.starting)+len(s.queue)+len(s.sending) == 0
}

// end forgets all transfers, which have failed.
func (s *sender) end() {
	s.collect()
	s.queue, s.sending = nil, nil
}

// sendControl sends the first message that is due, and reports whether there was one.
func (s *sender) sendControl(pipe *rpc.Actor) (sent bool, err error) {
	for i, t := range s.sending {
		if t.over {
			s.sending = slices.Delete(s.sending, i, i+1)
			s.peer.live.sent(t)
			return true, nil
		}
		if sent, err = t.sendControl(pipe); sent || err != nil {
			return sent, err
		}
	}
	return s.begin(pipe)
}

// begin sends the header of the next transfer, if the peer takes one more.
func (s *sender) begin(pipe *rpc.Actor) (bool, error) {
	if len(s.queue) == 0 || len(s.sending) >= s.atOnce {
		return false, nil
	}
	t := s.queue[0]
	s.queue = s.queue[1:]
	_, slots := pipe.Channel(s.peer.conn).Reliable() // lanes have as many
	if err := t.opts.checkEntries(slots); err != nil {
		t.finish(err)
		s.peer.live.sent(t)
		return true, nil
	}
	s.lastID++
	t.header.id = s.lastID
	t.limit = min(t.header.early(), s.earlyLeft())
	s.sending = append(s.sending, t)
	s.shares.join(&t.share)
	t.read()
	if err := s.peer.lanes.want(t); err != nil {
		return false, err
	}
	return true, sendHeader.call(pipe, t.header)
}

// earlyLeft is how many bytes may be sent ahead of one more answer.
func (s *sender) earlyLeft() int64 {
	left := s.early
	for _, t := range s.sending {
		if !t.accepted {
			left -= t.limit
		}
	}
	return max(left, 0)
}

// pump sends parts, each of the transfer that is furthest behind its share, while lanes are open.
func (s *sender) pump() error {
	for _, t := range s.sending {
		t.refreshWeight()
		t.blocked = false
	}
	for {
		t := s.neediest()
		if t == nil {
			return nil
		}
		route := s.peer.route(t.opts.via)
		if !route.open(t.opts.via) {
			if err := s.peer.lanes.widen(t); err != nil {
				return err
			}
			route.watch(t.opts.via)
			t.blocked = true
			continue
		}
		switch err := t.sendPart(route); {
		case errors.Is(err, rpc.ErrClosed):
			return err
		case err != nil:
			t.finish(err)
		}
	}
}

// left returns how many bytes of what is being sent the connection has yet to be given.
func (s *sender) left() (bytes int64) {
	for _, t := range s.sending {
		bytes += t.left()
	}
	return bytes
}

// neediest returns, of the transfers that have a part to send, the one that is furthest behind its share.
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

// usesLanes reports whether a transfer goes on whose parts travel on lanes.
func (s *sender) usesLanes() bool {
	return slices.ContainsFunc(s.sending, func(t *Transfer) bool {
		_, ok := t.opts.via.(Window)
		return ok
	})
}

// lastChunkGiven reports whether all parts that travel as chunks were given to the machine.
func (s *sender) lastChunkGiven() bool {
	return !slices.ContainsFunc(s.sending, func(t *Transfer) bool {
		_, chunks := t.opts.via.(Slices)
		return chunks && !t.endSent && !t.have && !t.isFinished()
	})
}

// find returns the transfer that a message of its receiver is about; nil when it has ended.
func (s *sender) find(id uint64) *Transfer {
	for _, t := range s.sending {
		if t.header.id == id && !t.over {
			return t
		}
	}
	if id > s.lastID {
		s.peer.violate("message about transfer %d, the last one is %d", id, s.lastID)
	}
	s.late++
	return nil
}

// onAccept and what follows run on the world's goroutine, for what the receiver says.
func (s *sender) onAccept(m accept) {
	if t := s.find(m.id); t != nil {
		s.peer.check(t.onAccept(m))
	}
}

func (s *sender) onGrant(m grant) {
	if t := s.find(m.id); t != nil {
		s.peer.check(t.onGrant(m))
	}
}

func (s *sender) onDone(m done) {
	if t := s.find(m.id); t != nil {
		s.peer.check(t.onDone())
	}
}

func (s *sender) onReject(m reject) {
	if t := s.find(m.id); t != nil {
		t.onReject(m.stop)
	}
}

// share is one transfer's place among those of a connection: bytes sent over weight. Of those that can send, the one
// with the smallest goes next, so that over any stretch each gets its weight's part of the bytes to within one part
// of content. It is what deficit round robin approximates, without a quantum to choose.
type share struct {
	weight int
	spent  float64 // bytes over weight
}

// shares is the clock of one connection's transfers: where the last one that was served stood.
type shares struct{ now float64 }

// join puts a transfer that begins, or that had nothing to send, level with the others: what it did not use is gone.
func (s *shares) join(f *share) { f.spent = max(f.spent, s.now) }

// serve charges f for bytes.
func (s *shares) serve(f *share, bytes int) {
	s.now = max(s.now, f.spent)
	f.spent += float64(bytes) / float64(max(1, f.weight))
}
