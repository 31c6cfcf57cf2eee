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

// sealed reports whether a backend asks for the sealed carrier.
func sealed(via Backend) bool {
	s, ok := via.(Slices)
	return ok && s.Carrier == Raw
}

// sliceQueueTime is what may wait unsent in a world under Run, which is woken when it has left.
const sliceQueueTime = 5 * time.Millisecond

// sliceRoute is the route of chunks. It belongs to the world's goroutine, but for the machine, which belongs to whoever
// holds the lock of the connection's machines, and that with the machine's own.
type sliceRoute struct {
	conn    *rpc.Conn
	machine *sliceLink
	sealed  *sealedLink   // around the machine, when the sealed carrier moves it, too
	queue   time.Duration // that may wait unsent

	// What one visit to the machine takes there and brings back. The functions are made once.
	block   *block
	message []byte
	isOpen  bool
	err     error
	batch   [][]byte // messages that arrived

	// As of the last visit.
	sent, sealedSent, resent, refused uint64
	repairs, mended                   uint64

	look, put, arm, take, giveBack func(now time.Time)
}

// newSliceRoute returns the route of the machine whose datagrams begin with protocol.
func newSliceRoute(conn *rpc.Conn, protocol byte) *sliceRoute {
	s := &sliceRoute{conn: conn}
	switch m := conn.Machine(protocol).(type) {
	case *sliceLink:
		s.machine = m
	case *sealedLink:
		s.machine, s.sealed = &m.sliceLink, m
	}
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
	return s
}

func (s *sliceRoute) count() {
	m := s.machine
	s.sent, s.resent, s.refused = m.flight.next, m.flight.resent, m.inbox.refused+m.inbox.malformed
	if s.sealed != nil {
		s.sealedSent, s.repairs, s.mended = s.sealed.count, s.sealed.repairs.sent, m.mender.mended
	}
}

// visit runs fn with the machine in hand and lets leave what that changed.
func (s *sliceRoute) visit(fn func(now time.Time)) {
	if s.sealed != nil {
		s.sealed.visit(s.conn, fn)
		return
	}
	s.conn.Drive(fn)
}

// carrier returns what carries the parts at present. It is safe from any goroutine.
func (s *sliceRoute) carrier() Carrier {
	if s.sealed != nil && s.sealed.isSealed() {
		return Raw
	}
	return QUIC
}

func (s *sliceRoute) open(Backend) bool {
	s.visit(s.look)
	return s.isOpen
}

// send keeps the block until all of its slices are acked.
func (s *sliceRoute) send(_ Backend, b *block, id uint64) error {
	s.block, s.message = b, b.message(id)
	s.visit(s.put)
	s.block, s.message = nil, nil
	if s.err != nil {
		b.free()
	}
	return s.err
}

func (s *sliceRoute) watch(Backend) { s.visit(s.arm) }

// received gives the messages that arrived to handle, which must not keep them.
func (s *sliceRoute) received(handle func(message []byte)) {
	if !s.machine.news.Swap(false) {
		return
	}
	s.visit(s.take)
	for _, m := range s.batch {
		s.machine.inbox.release(m)
		handle(m)
	}
	s.visit(s.giveBack)
	s.batch = nil
}
