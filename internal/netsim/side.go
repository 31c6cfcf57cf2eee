package netsim

import (
	"fmt"
	"time"
)

// DefaultMax is the size in bytes of the largest datagram that quic-go sends before it has
// discovered a larger path MTU. It is the limit for a side's machine if the side's link has
// no MTU.
const DefaultMax = 1243

// A Machine is one end of a connection, without a clock. Its owner calls Receive, then
// Advance, then AppendPacket until that returns no packet. It does so again at NextTimeout.
type Machine interface {
	// Receive handles the datagram and takes ownership of it. An error ends the machine.
	Receive(now time.Time, datagram []byte) error
	// AppendPacket appends a packet of at most size bytes to buf.
	AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool)
	// Advance runs the timers that are due. An error ends the machine. After Advance, either
	// NextTimeout returns a time after now or a packet can be built.
	Advance(now time.Time) error
	// NextTimeout returns the time of the next call. ok is false if no timer runs.
	NextTimeout() (at time.Time, ok bool)
}

// windower is implemented by machines that need the path's window.
type windower interface{ SetWindow(bytes int) }

// A Side is one end of a Pair: a machine and its outgoing link.
type Side struct {
	Name    string
	Machine Machine
	Link    *Link // to the other side

	// Max is the size in bytes of the largest datagram the machine may build. 0 = the link's
	// current MTU, or DefaultMax if it has none. A fixed Max above the MTU makes a black
	// hole.
	Max int

	// Err is the error that Receive or Advance returned. After it, the machine is not called
	// and packets to it are lost.
	Err error

	Sent, Received uint64 // packets the machine has built and received

	spare []byte // buffer for the next packet
}

// max returns the size in bytes of the largest datagram that AppendPacket may build.
func (s *Side) max(now time.Time) int {
	if s.Max > 0 {
		return s.Max
	}
	if mtu := s.Link.MTU(now); mtu > 0 {
		return mtu
	}
	return DefaultMax
}

// receive passes the packets that have arrived over the other side's link to the machine. It
// reports whether there were any.
func (s *Side) receive(now time.Time, from *Side) (moved bool, err error) {
	for {
		packet, ok := from.Link.Deliver(now)
		if !ok {
			return moved, nil
		}
		moved = true
		if s.Err != nil {
			continue
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

// fail records the error of a call.
func (s *Side) fail(call string, err error) error {
	s.Err = err
	return fmt.Errorf("netsim: side %s: %s: %w", s.Name, call, err)
}

// send moves packets from the machine to the link until the machine has no more. tap is
// OnPacket.
func (s *Side) send(now time.Time, tap func(*Side, []byte, Fate)) (moved bool, err error) {
	if s.Err != nil {
		return false, nil
	}
	for n := 0; ; n++ {
		limit := s.max(now)
		buf := s.buffer(limit)
		packet, _, ok := s.Machine.AppendPacket(now, buf, limit)
		switch {
		case !ok:
			s.spare = buf
			return moved, nil
		case len(packet) > limit:
			return moved, fmt.Errorf("netsim: side %s built a packet of %d bytes, its limit was %d",
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

// timeout returns the time at which the machine must be called again.
func (s *Side) timeout() (at time.Time, ok bool) {
	if s.Err != nil {
		return time.Time{}, false
	}
	return s.Machine.NextTimeout()
}
