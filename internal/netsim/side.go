package netsim

import (
	"fmt"
	"time"
)

// DefaultMax is the maximum size in bytes of a datagram that a side's machine builds if the side's
// link has no MTU. It's the size of the largest datagram that quic-go sends before it discovers a
// larger path MTU.
const DefaultMax = 1243

// A Machine is one end of a connection, without a clock. Its owner calls Receive, then Advance,
// then AppendPacket until there is no packet left to send, and starts over at NextTimeout.
type Machine interface {
	// Receive handles the datagram and takes ownership of it. An error ends the machine.
	Receive(now time.Time, datagram []byte) error
	// AppendPacket appends a packet of at most size bytes to buf.
	AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool)
	// Advance runs the timers that are due. Afterwards, either NextTimeout returns a time after
	// now or there is a packet to build. An error ends the machine.
	Advance(now time.Time) error
	// NextTimeout returns when Advance must be called next. ok is false if no timer is running.
	NextTimeout() (at time.Time, ok bool)
}

// windower is implemented by machines that need the path's window.
type windower interface{ SetWindow(bytes int) }

// A Side is one end of a Pair: a machine and its outgoing link.
type Side struct {
	Name    string
	Machine Machine
	Link    *Link // to the other side

	// Max is the maximum size in bytes of a datagram that the machine builds. The default is the
	// link's current MTU, or DefaultMax if the link has none. A Max above the MTU makes the path
	// a black hole for the largest packets.
	Max int

	// Err is the error from Receive or Advance that ended the machine, which is then not called
	// again. Packets to it are lost.
	Err error

	Sent, Received uint64 // packets that the machine built and received

	spare []byte // an unused buffer for the next packet
}

// maxSize returns the maximum size in bytes of a datagram that AppendPacket may build.
func (s *Side) maxSize(now time.Time) int {
	if s.Max > 0 {
		return s.Max
	}
	if mtu := s.Link.MTU(now); mtu > 0 {
		return mtu
	}
	return DefaultMax
}

// receive passes the packets that have arrived over the other side's link to the machine. moved is
// true if there were any.
func (s *Side) receive(now time.Time, from *Side) (moved bool, err error) {
	for {
		packet, ok := from.Link.Deliver(now)
		if !ok {
			return moved, nil
		}
		moved = true
		if s.Err != nil {
			continue // drop it, because the machine has ended
		}
		s.Received++
		if err := s.Machine.Receive(now, packet); err != nil {
			return true, s.fail("Receive", err)
		}
	}
}

// advance runs the machine's timers.
func (s *Side) advance(now time.Time) error {
	if s.Err != nil {
		return nil
	}
	if err := s.Machine.Advance(now); err != nil {
		return s.fail("Advance", err)
	}
	return nil
}

// fail ends the machine because the given call returned err.
func (s *Side) fail(call string, err error) error {
	s.Err = err
	return fmt.Errorf("netsim: side %s: %s: %w", s.Name, call, err)
}

// send moves packets from the machine to the link until the machine has no more. tap is called for
// each, unless it's nil.
func (s *Side) send(now time.Time, tap func(*Side, []byte, Fate)) (moved bool, err error) {
	if s.Err != nil {
		return false, nil
	}
	for n := 0; ; n++ {
		limit := s.maxSize(now)
		buf := s.buffer(limit)
		packet, _, ok := s.Machine.AppendPacket(now, buf, limit)
		switch {
		case !ok:
			s.spare = buf // it holds no packet, so it doesn't belong to the link
			return moved, nil
		case len(packet) > limit:
			return moved, fmt.Errorf("netsim: side %s built a packet of %d bytes; the limit was %d",
				s.Name, len(packet), limit)
		case len(packet) == 0:
			return moved, fmt.Errorf("%w: side %s built an empty packet", ErrSpin, s.Name)
		case n == maxPacketsAtOnce:
			return moved, fmt.Errorf("%w: side %s built %d packets at one time", ErrSpin, s.Name, n)
		}
		moved = true
		s.Sent++
		fate := s.Link.Send(now, packet)
		if tap != nil {
			tap(s, packet, fate)
		}
	}
}

// buffer returns an empty buffer with room for size bytes.
func (s *Side) buffer(size int) []byte {
	buf := s.spare
	s.spare = nil
	if cap(buf) < size {
		buf = make([]byte, 0, size)
	}
	return buf
}

// timeout returns when the machine must be called again, if ever.
func (s *Side) timeout() (at time.Time, ok bool) {
	if s.Err != nil {
		return time.Time{}, false
	}
	return s.Machine.NextTimeout()
}
