package stream

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// Slices moves parts as chunks of slices, each slice a datagram of its own that is sent again until it is acked: Glenn
// Fiedler's protocol, see package chunk. It leaves behind all play, like Window, but fills no reliable buffer.
type Slices struct {
	// Carrier of the packets.
	Carrier Carrier
}

// Carrier moves the packets of Slices.
type Carrier uint8

const (
	// QUIC is the connection itself, with its congestion control.
	QUIC Carrier = iota
	// Raw is the sealed carrier beside the connection, for paths that lose much. Where it is not open, the transfer goes
	// over QUIC, and Transfer.Carrier says so.
	Raw
)

func (c Carrier) String() string {
	switch c {
	case QUIC:
		return "quic"
	case Raw:
		return "raw"
	}
	return fmt.Sprintf("Carrier(%d)", uint8(c))
}

func (s Slices) check() error {
	if s.Carrier > Raw {
		return fmt.Errorf("stream: Slices.Carrier is %d, must be QUIC or Raw", s.Carrier)
	}
	return nil
}

// sliceQueueTime is what may wait unsent in a world under Run, which is woken when it has left.
const sliceQueueTime = 5 * time.Millisecond

// sliceRoute is the route of chunks. It belongs to the world's goroutine, but for the machine, which belongs to whoever
// holds the lock of the connection's machines.
type sliceRoute struct {
	conn    *rpc.Conn
	machine *sliceLink
	queue   time.Duration // that may wait unsent

	// What one visit to the machine takes there and brings back. The functions are made once.
	block     *block
	message   []byte
	isOpen    bool
	err       error
	batch     [][]byte // messages that arrived
	allowance int

	sent, resent, refused uint64 // as of the last visit

	look, put, arm, take, giveBack, allow func(now time.Time)
}

func newSliceRoute(conn *rpc.Conn) *sliceRoute {
	s := &sliceRoute{conn: conn}
	s.machine, _ = conn.Machine(sliceProtocol).(*sliceLink)
	s.look = func(time.Time) {
		s.isOpen = s.machine.open(s.queue)
		s.count()
	}
	s.put = func(time.Time) { s.err = s.machine.send(s.block, s.message) }
	s.arm = func(time.Time) { s.machine.watch(s.queue) }
	s.take = func(time.Time) { s.batch = s.machine.inbox.take() }
	s.giveBack = func(time.Time) {
		s.machine.inbox.giveBack(s.batch)
		s.count()
	}
	s.allow = func(time.Time) { s.machine.inbox.allowance = s.allowance }
	return s
}

func (s *sliceRoute) count() {
	m := s.machine
	s.sent, s.resent, s.refused = m.flight.next, m.flight.resent, m.inbox.refused+m.inbox.malformed
}

// carrier returns what carries the parts of a transfer by that backend. The sealed carrier is never open here.
func (s *sliceRoute) carrier(Backend) Carrier { return QUIC }

func (s *sliceRoute) open(Backend) bool {
	s.conn.Drive(s.look)
	return s.isOpen
}

// send keeps the block until all of its slices are acked.
func (s *sliceRoute) send(_ Backend, b *block, id uint64) error {
	s.block, s.message = b, b.message(id)
	s.conn.Drive(s.put)
	s.block, s.message = nil, nil
	if s.err != nil {
		b.free()
	}
	return s.err
}

func (s *sliceRoute) watch(Backend) { s.conn.Drive(s.arm) }

// received gives the messages that arrived to handle, which must not keep them.
func (s *sliceRoute) received(handle func(message []byte)) {
	if !s.machine.news.Swap(false) {
		return
	}
	s.conn.Drive(s.take)
	for _, m := range s.batch {
		handle(m)
	}
	s.conn.Drive(s.giveBack)
	s.batch = nil
}

// expect says how many bytes the peer may have under way to this end.
func (s *sliceRoute) expect(bytes int) {
	if bytes != s.allowance {
		s.allowance = bytes
		s.conn.Drive(s.allow)
	}
}
